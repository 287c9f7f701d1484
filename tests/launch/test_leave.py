"""The end of a job of several hosts: the first waits for the others as long as their work may take, and says so where it was not done."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from fakes import Streams, processes_of, role, summary_of, wait_for

from mindrecipe.launch import LaunchPlan, RestartPolicy, leave
from mindrecipe.launch.attempt import attempt
from mindrecipe.launch.disk import Ballast
from mindrecipe.launch.leave import LINGER, Leave
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.ports import free_port
from mindrecipe.launch.seen import Seen
from mindrecipe.launch.signals import StopSignals
from mindrecipe.launch.stall import LONGEST_PAUSE
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import Event, to_line

Plan = Callable[..., LaunchPlan]
HOUR = LONGEST_PAUSE * 120


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def hosts(
    plan: Plan, ranks: int = 2, nodes: int = 2, *, shared: bool = True, **options: object
) -> Iterator[tuple[list[Leave], list[Seen], list[Peers], Clock]]:
    """All hosts of a job whose first one's ranks have just said "done"; the others have come to the run directory where it is ``shared``."""
    clock, seen = Clock(), [Seen() for _ in range(nodes)]
    plans = [plan(ranks, nodes=nodes, node_rank=node, **{"stall_timeout": 20.0, **options}) for node in range(nodes)]
    with ExitStack() as entered:
        peers = [entered.enter_context(Peers(each)) if shared or each.node == 0 else Peers(each) for each in plans]
        leaves = [Leave(*each, clock) for each in zip(plans, seen, peers, strict=True)]
        for each, mine in zip(plans, seen, strict=True):
            mine.done.update(each.local_ranks)
        yield leaves, seen, peers, clock


def test_one_host_waits_for_its_ranks_and_not_for_msrun(plan: Plan) -> None:
    with hosts(plan, nodes=1) as ((alone,), _, _, clock):
        clock.now = LINGER - 1
        assert alone.waits(None, left=False) and not alone.waits(None, left=True) and not alone.waits(0, left=True)
        clock.now = LINGER + 1
        assert not alone.waits(None, left=False) and "31 s of their end and were killed" in alone.notes(None, left=False)[0]
        assert alone.lost(1) is None and alone.notes(None, left=True) == alone.notes(0, left=True) == ()
        assert alone.notes(1, left=True) == ("msrun: left with exit code 1 after the work was done",)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_the_first_host_waits_for_what_others_still_do(plan: Plan, shared: bool, left: bool) -> None:
    """Saving to a slower disk, evaluating: half a minute was not enough. Without a shared disk the scheduler's end tells, or an hour."""
    with hosts(plan, shared=shared) as ((first, _), (seen, _), _, clock):
        for clock.now in (LINGER + 1, HOUR - 1):
            assert first.waits(None, left=left)
        first.heard()
        clock.now += HOUR - 1
        assert first.waits(None, left=left), "an evaluation that gets on"
        clock.now += 2
        assert not first.waits(None, left=left)
        lost = first.lost(None)
        assert (lost is not None) == shared and first.others_work == shared
        if lost is not None:
            assert (lost.rank, lost.type) == (2, "Died") and "host 1 was lost before the work of its ranks was done" in lost.message
        seen.done |= {2, 3}
        first.heard()
        assert first.waits(None, left=left) and not first.others_work
        clock.now += LINGER + 1
        assert not first.waits(None, left=left) and first.lost(None) is None


def test_where_nothing_is_a_hang_nothing_is_too_long(plan: Plan) -> None:
    with hosts(plan, stall_timeout=None) as ((first, _), _, _, clock):
        clock.now = 1000 * HOUR
        assert first.waits(None, left=True)


def test_another_host_waits_for_the_first_which_has_waited_for_all(plan: Plan) -> None:
    """Its ranks that don't leave may still be needed: their death would end those that save."""
    with hosts(plan) as ((_, second), _, (first_peers, _), clock):
        clock.now = LINGER + 1
        assert second.waits(None, left=False) and not second.waits(0, left=True) and not second.others_work
        first_peers.ended(Outcome(state="completed", exit_code=0))
        assert not second.waits(None, left=False) and second.lost(None) is None


@pytest.mark.parametrize("shared", [True, False])
def test_a_scheduler_that_ends_badly_before_all_are_done(plan: Plan, shared: bool) -> None:
    """A host was lost: the others have a moment to say more of it. Where they can't be seen, msrun's end is a note, as before."""
    with hosts(plan, nodes=3, shared=shared) as ((first, *_), (seen, *_), _, clock):
        seen.done |= {2, 3}
        assert first.waits(1, left=True) == shared and not first.waits(0, left=True), "0: all have taken their leave"
        clock.now = LINGER + 1
        assert not first.waits(1, left=True)
        lost = first.lost(1)
        assert (lost is not None) == shared
        assert lost is None or (lost.rank == 4 and "host 2 was lost" in lost.message and "msrun left with exit code 1" in lost.message)


class Job:
    """The first of two hosts, with a rank and a scheduler of its own; the other's rank is what the test writes."""

    def __init__(self, plan: Plan, run_dir: Path, **options: object) -> None:
        self.run_dir = run_dir
        self.signals = StopSignals()
        port = free_port()
        asked = [plan(1, nodes=2, node_rank=node, master_port=port, restarts=RestartPolicy(), **options) for node in (0, 1)]
        self.peers = [Peers(each) for each in asked]
        self._plan = asked[0]
        self._ended: list[Outcome] = []
        self._thread = threading.Thread(target=self._attempt)

    def __enter__(self) -> Job:
        for each in self.peers:
            each.__enter__()
        self._thread.start()
        wait_for(lambda: '"done"' in self._events(0))
        return self

    def __exit__(self, *told: object) -> None:
        if self._thread.is_alive():
            self.signals.received += [signal.SIGINT, signal.SIGINT]
            self._thread.join()
        for each in reversed(self.peers):
            each.__exit__(None, None, None)

    def says(self, phase: str) -> None:
        """Word of the other host's rank."""
        with (self.run_dir / "logs/rank_1.events.jsonl").open("a") as file:
            file.write(to_line(Event(phase=phase, rank=1, pid=1, time=0.0, detail={})))

    def ends(self) -> Outcome:
        self._thread.join(150)
        (outcome,) = self._ended
        return outcome

    def runs(self) -> bool:
        return self._thread.is_alive()

    def scheduler(self) -> int:
        (found,) = [each.pid for each in processes_of(self.run_dir) if role(each) == "scheduler"]
        return found

    def _events(self, rank: int) -> str:
        path = self.run_dir / f"logs/rank_{rank}.events.jsonl"
        return path.read_text() if path.exists() else ""

    def _attempt(self) -> None:
        with Ballast(self.run_dir) as ballast:
            ending, _ = attempt(self._plan, Streams().view(), self.signals, ballast, self.peers[0])
            self._ended.append(ending.outcome)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leave, "LINGER", 0.2)


@pytest.mark.usefixtures("at_once")
def test_the_scheduler_stays_as_long_as_another_host_saves(plan: Plan, run_dir: Path) -> None:
    with Job(plan, run_dir, FAKE_STEPS=3) as job:
        threading.Event().wait(2)  # long after LINGER
        assert job.runs() and job.scheduler()
        job.says("save")
        threading.Event().wait(1)
        assert job.runs() and job.scheduler()
        job.says("done")
        outcome = job.ends()
    assert (outcome.state, outcome.exit_code, outcome.notes, outcome.errors) == ("completed", 0, (), ())
    assert summary_of(run_dir)["state"] == "completed"


@pytest.mark.usefixtures("at_once")
def test_a_job_whose_other_host_was_lost_while_it_saved_has_failed(plan: Plan, run_dir: Path) -> None:
    """Its power went: the scheduler notices that, and ends."""
    with Job(plan, run_dir, FAKE_STEPS=3) as job:
        job.says("save")
        os.kill(job.scheduler(), signal.SIGKILL)
        outcome = job.ends()
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert "host 1 was lost before the work of its ranks was done: msrun left with exit code 1" in outcome.errors[0].message


@pytest.mark.parametrize("done", [True, False])
def test_a_notice_leaves_the_scheduler_to_ranks_that_save(plan: Plan, run_dir: Path, done: bool) -> None:
    """SIGTERM goes to all hosts, and this one's ranks are done: the others have stop_grace seconds."""
    with Job(plan, run_dir, FAKE_STEPS=3, stop_grace=100 if done else 2) as job:
        job.says("save")
        job.signals.received.append(signal.SIGTERM)
        threading.Event().wait(1)
        assert job.runs() and job.scheduler()
        if done:
            job.says("done")
        outcome = job.ends()
    assert (outcome.state, outcome.exit_code) == (("completed", 0) if done else ("interrupted", 143))
