"""Owning every process of a launch: all carry its mark in their environment, so that none can be lost from sight.

msrun puts each rank into a session of its own and forgets it when it is terminated; neither a process group nor the tree
below msrun finds them again. Their environment does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from mindrecipe.orphans import kill_me_with_my_parent

RUN_ID = "MINDRECIPE_RUN_ID"


def die_with(parent: int) -> Callable[[], None]:
    """For ``preexec_fn``: the kernel kills the child when ``parent`` is gone, even by kill -9. Survives exec. Linux only."""

    def ask() -> None:
        kill_me_with_my_parent()
        if os.getppid() != parent:  # it went before we asked
            os._exit(1)

    return ask


def alive(process: psutil.Process) -> bool:
    """Neither gone nor a zombie that its parent has not yet collected (a stopped msrun collects none)."""
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def unclaimed_exit_code(pid: int) -> int | None:
    """How a child of somebody else ended, negative for a signal, as long as its parent has not asked; None before and after (proc(5))."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except (OSError, IndexError):  # no such process any more, or no /proc
        return None
    return os.waitstatus_to_exitcode(int(fields[49])) if fields[0] == "Z" else None


class Tree:
    """The processes that carry one run id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    def members(self) -> list[psutil.Process]:
        """All of them that live, whoever their parent is now. A look at every process of the machine: about 10 ms."""
        return [process for process in psutil.process_iter() if process.pid != os.getpid() and self._is_member(process) and alive(process)]

    def kill(self, timeout: float = 5.0) -> list[int]:
        """Kill them all and see them gone; looks again until none is left, since a process may have forked meanwhile.

        Returns the pids that SIGKILL did not end in ``timeout`` seconds: they are stuck in the kernel (a device, a network disk).
        """
        deadline = time.monotonic() + timeout
        while left := self.members():
            if time.monotonic() > deadline:
                return [process.pid for process in left]
            send(left, signal.SIGKILL)
            wait_gone(left, 0.2)
        return []

    def _is_member(self, process: psutil.Process) -> bool:
        return environment_of(process).get(RUN_ID) == self.run_id


def wait_gone(processes: Iterable[psutil.Process], timeout: float) -> bool:
    """Whether all of them ended in time. Collects no child's exit status: that is its owner's to read."""
    deadline = time.monotonic() + timeout
    while any(alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Its environment; {} where it is gone, not ours to read, or just being replaced by exec."""
    try:
        return dict(process.environ())
    except (psutil.Error, OSError):
        return {}


def send(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to those that still live."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue
