"""Starting this host's processes: one rank by itself, or several through msrun."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

from mindrecipe.launch.commands import command_lines
from mindrecipe.launch.environment import rank_environment, write_python_shim
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.processes import die_with


def _in_child(parent: int, *, deaf: bool) -> Callable[[], None]:
    """What the child does before it becomes the program. ``deaf``: a scheduler tells every process of a job at once to end (SIGTERM);
    msrun must not, as its ranks would go with it before they have saved.
    """
    tie = die_with(parent)

    def run() -> None:
        tie()
        if deaf:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return run


def start(plan: LaunchPlan, run_id: str) -> subprocess.Popen[bytes]:
    """Start the rank (one process), or msrun which starts the ranks; its output goes to a file of RUN/logs.

    The child leads a session of its own, so that the terminal's Ctrl-C reaches the launcher only, and is killed by the kernel
    when the thread that called this ends: call it from a thread that outlives the run.
    """
    if not plan.is_local:
        write_python_shim(plan)
    log = plan.files.rank_log(0) if plan.is_local else plan.launch_log
    line = command_lines(plan)[plan.node]
    with log.open("ab") as output:
        return subprocess.Popen(
            line,
            env=rank_environment(plan, run_id),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_in_child(os.getpid(), deaf=not plan.is_local),  # noqa: PLW1509 - one system call, which takes no lock that another thread could hold
        )
