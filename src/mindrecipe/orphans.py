"""No process of a job outlives the one that started it: the kernel is asked to see to it. Linux only.

msrun starts its ranks in sessions of their own and does not handle SIGTERM: kill it and they train on as orphans. A process may
ask the kernel for a signal at its parent's death. The kernel counts the parent's *thread* that started it: ranks must be
started from a thread that lives as long as they should.
"""

from __future__ import annotations

import ctypes
import signal
import sys

LAUNCHER = "MINDRECIPE_LAUNCHER_PID"
"""Names the launcher (or scripts/msrun_node.sh) to a rank: one that starts after it has died looks for it, and ends. A rank without one was
started by hand."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def kill_me_with_my_parent() -> bool:
    """Ask for SIGKILL when the parent of this process ends. One system call, no lock; False where there is no such call.

    A parent that died before the request took hold leaves no signal behind: the caller looks for that. Raises OSError.
    """
    if _LIBC is None:
        return False
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    return True
