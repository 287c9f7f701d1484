"""A rank never outlives the process that started it (orphans.py), and takes signals at once until it says otherwise."""

from __future__ import annotations

import os
import signal

from mindrecipe.orphans import LAUNCHER, kill_me_with_my_parent

SWITCH = "MINDRECIPE_PARENT_GUARD"


def die_with_parent() -> bool:
    """Ask the kernel to SIGKILL this process when its parent ends; True when that is in force.

    ``MINDRECIPE_PARENT_GUARD=0`` turns it off, for a rank that is started by hand and left alone. A parent that died before the
    request took hold leaves no signal behind, so its absence is looked for as well: by a changed parent, and, where the launcher
    gave its process id in ``MINDRECIPE_LAUNCHER_PID``, by that process being gone. Linux only (elsewhere False).
    """
    parent = os.getppid()
    if os.environ.get(SWITCH, "1") == "0" or not kill_me_with_my_parent():
        return False
    if os.getppid() != parent or not _launcher_lives():
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def end_at_once_when_asked() -> None:
    """SIGINT and SIGTERM end this process immediately, without a traceback.

    Python would turn SIGINT into an exception, which waits for the running graph to return; mindspore and mindformers install
    handlers of their own. Nothing is lost: metrics and events are flushed line by line, and checkpoints are written to a
    temporary name and renamed, so the last complete one stays.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _launcher_lives() -> bool:
    launcher = os.environ.get(LAUNCHER)
    if not launcher:
        return True
    try:
        os.kill(int(launcher), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it lives, and belongs to somebody else
        return True
    return True
