"""This host's ranks as processes: which they are, and which have ended."""

from __future__ import annotations

import subprocess

import psutil

from mindrecipe.launch.failure import worker_exits
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.processes import alive, environment_of, unclaimed_exit_code
from mindrecipe.measure.tail import LineTail


class Ranks:
    """Follows the ranks below ``root``, which is the rank itself (one process) or msrun.

    msrun's children are told apart by the environment msrun gave them; their exit codes are msrun's to collect, so we read
    them from its log, or from the kernel before msrun has looked.
    """

    def __init__(self, plan: LaunchPlan, root: subprocess.Popen[bytes]) -> None:
        self._plan = plan
        self._root = root
        self._found: dict[int, psutil.Process] = {}
        self._scheduler: psutil.Process | None = None
        self._codes: dict[int, int] = {}
        self._unclaimed: dict[int, int] = {}
        self._launch_log = LineTail(plan.launch_log)
        if plan.is_local:
            self._found[0] = psutil.Process(root.pid)

    @property
    def root_code(self) -> int | None:
        """The exit code of the process that we started, None while it runs."""
        return self._root.poll()

    def look(self) -> None:
        """Find ranks that msrun has started since the last look, and read what it says of those that ended."""
        if self._plan.is_local:
            return
        if len(self._found) < self._plan.devices_per_node or (self._scheduler is None and self._plan.node == 0):
            self._discover()
        for line in self._launch_log.read():
            ended = worker_exits(line)
            if ended is not None:
                self._codes[ended[0]] = ended[1]
        for process in self._found.values():
            if (code := unclaimed_exit_code(process.pid)) is not None:
                self._unclaimed[process.pid] = code

    def living(self) -> dict[int, psutil.Process]:
        """The ranks that run."""
        return {rank: process for rank, process in self._found.items() if self._runs(process)}

    def ended(self) -> set[int]:
        """The ranks that ran and have ended."""
        return (set(self._found) - set(self.living())) | self._missed.keys()

    def exit_code(self, rank: int) -> int | None:
        """The exit code of a rank that has ended, negative for a signal; None as long as it is not known."""
        if self._plan.is_local:
            return self.root_code
        process = self._found.get(rank)
        pid = self._missed.get(rank) if process is None else process.pid
        return None if pid is None else self._codes.get(pid, self._unclaimed.get(pid))

    def blamed(self) -> list[int]:
        """The ranks that msrun itself named as failed, in its order."""
        pids = {process.pid: rank for rank, process in self._found.items()} | {pid: rank for rank, pid in self._missed.items()}
        return [pids[pid] for pid in self._codes if pid in pids]

    @property
    def _missed(self) -> dict[int, int]:
        """Ranks that ended before they were found, with their pids: msrun starts all before it names any, and these are the ones left."""
        found = {process.pid for process in self._found.values()}
        left = (rank for rank in self._plan.local_ranks if rank not in self._found)
        return dict(zip(left, (pid for pid in self._codes if pid not in found), strict=False))

    def scheduler_ended(self) -> bool:
        """Whether msrun's scheduler ran on this host and has ended."""
        return self._scheduler is not None and not alive(self._scheduler)

    def _runs(self, process: psutil.Process) -> bool:
        return self.root_code is None if self._plan.is_local else alive(process)

    def _discover(self) -> None:
        try:
            children = psutil.Process(self._root.pid).children()
        except psutil.NoSuchProcess:
            return
        for child in children:
            environment = environment_of(child)
            role = environment.get("MS_ROLE")
            if role == "MS_SCHED":
                self._scheduler = child
            elif role == "MS_WORKER" and "MS_NODE_ID" in environment:
                self._found[int(environment["MS_NODE_ID"])] = child
