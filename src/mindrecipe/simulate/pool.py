"""Several ranks at once, as many as cores and memory of the host allow. Each that ends well is kept, if any is (simulate/job.py)."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

import psutil

from mindrecipe.launch import failure
from mindrecipe.launch.processes import Tree
from mindrecipe.launch.signals import StopSignals
from mindrecipe.measure.outcome import RankError
from mindrecipe.measure.record import event_from_line
from mindrecipe.simulate import report
from mindrecipe.simulate.job import Job
from mindrecipe.simulate.process import SimulatedRank
from mindrecipe.simulate.report import RankReport
from mindrecipe.simulate.standin import StandIn

POLL = 0.2
#: what a rank is taken to need until one has ended: one of eight of Llama2-7B takes 2 GiB
FIRST_GUESS = 3 << 30
#: left to everything else on the host
RESERVE = 1 << 30


class Failed(Exception):
    """A rank could not be simulated; ``error`` is what it said."""

    def __init__(self, error: RankError) -> None:
        super().__init__(error.message)
        self.error = error


class Interrupted(Exception):
    """Ctrl-C or SIGTERM; ``number`` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class Pool:
    """Simulates ranks of one job. ``tell`` is called with one line whenever there is news, ``show`` often, with what goes on now."""

    def __init__(self, job: Job, stand_in: StandIn, version: str, tell: Callable[[RankReport], None], show: Callable[[str], None]) -> None:
        self._job = job
        self._stand_in = stand_in
        self._version = version
        self._tell = tell
        self._show = show
        self._run_id = uuid.uuid4().hex
        self._running: dict[int, SimulatedRank] = {}
        self._largest = 0

    def run(self, signals: StopSignals) -> tuple[RankReport, ...]:
        """Simulate all ranks of the job and return their reports, in the order of the ranks. Failed or Interrupted ends all of them."""
        done = self._known()
        waiting = [rank for rank in self._job.ranks if rank not in done]
        try:
            while waiting or self._running:
                if signals.received:
                    raise Interrupted(signals.received[0])
                while waiting and self._room():
                    rank = waiting.pop(0)
                    self._running[rank] = SimulatedRank(self._job, rank, self._stand_in, self._run_id)
                for rank in self._ended():
                    done[rank] = self._bury(self._running.pop(rank))
                self._show(self._line(len(done)))
                time.sleep(POLL)
        finally:
            if self._running:
                Tree(self._run_id).kill()
                for each in self._running.values():
                    each.reap()
        return tuple(done[rank] for rank in self._job.ranks)

    def _known(self) -> dict[int, RankReport]:
        if self._job.fresh or not self._job.keeps:
            return {}
        known = {rank: found for rank in self._job.ranks if (found := report.load(self._job.kept(rank, self._version))) is not None}
        for each in known.values():
            self._tell(each)
        return known

    def _room(self) -> bool:
        """Whether another rank may start: one always may."""
        if not self._running:
            return True
        most = self._job.at_once or len(os.sched_getaffinity(0))
        if len(self._running) >= most:
            return False
        if self._job.at_once is not None:
            return True
        need = self._largest or FIRST_GUESS
        growing = sum(max(0, need - rank.measure()) for rank in self._running.values())
        return psutil.virtual_memory().available - growing - RESERVE > need

    def _ended(self) -> list[int]:
        for each in self._running.values():
            each.measure()
            for line in each.events.read():
                with suppress(json.JSONDecodeError, TypeError):  # a line that is just being written is read whole next time
                    each.phase = event_from_line(line).phase
        return [rank for rank, each in self._running.items() if each.code is not None]

    def _bury(self, ended: SimulatedRank) -> RankReport:
        self._largest = max(self._largest, ended.host_bytes)
        if ended.code != 0:
            raise Failed(_why(self._job, ended))
        stage = self._job.stage_of(ended.rank)
        taken = report.take(ended.rank, stage, self._job.run_dir, seconds=ended.seconds, host_bytes=ended.host_bytes)
        if self._job.keeps:
            report.save(taken, self._job.cache, self._job.kept(ended.rank, self._version))
        self._tell(taken)
        return taken

    def _line(self, done: int) -> str:
        going = ", ".join(
            f"rank {rank} {each.phase} {each.seconds:.0f} s, {each.host_bytes / 2**30:.1f} GiB here" for rank, each in self._running.items()
        )
        return f"simulating {done}/{len(self._job.ranks)} ranks; {going}"


def _why(job: Job, ended: SimulatedRank) -> RankError:
    """What a rank that failed said of it, else how it ended."""
    events = job.run_dir / "logs" / f"rank_{ended.rank}.events.jsonl"
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    said = [event for event in map(event_from_line, lines) if event.phase == "error"]
    if said:
        return failure.from_event(said[-1], ended.log)
    return failure.from_death(ended.rank, ended.code, ended.log, time.time())
