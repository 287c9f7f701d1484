"""Who is to blame where everything happens between two looks: the ranks are figures, their files are real."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import pytest
from fakes import Streams

from mindrecipe.launch import LaunchPlan, supervise
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.processes import Tree
from mindrecipe.launch.ranks import Ranks
from mindrecipe.launch.signals import StopSignals
from mindrecipe.launch.supervise import Supervisor
from mindrecipe.launch.watch import Watch
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import Event, to_line

Plan = Callable[..., LaunchPlan]


class Figures:
    """Ranks that have ended, look by look; ``named`` by msrun as failed. ``meanwhile`` is done between a look and the files' turn."""

    def __init__(self, *ended: set[int], named: tuple[int, ...] = (), meanwhile: Callable[[], None] = lambda: None) -> None:
        self._ended, self._named, self._meanwhile, self._looks = ended, named, meanwhile, 0
        self.root_code = None

    def look(self) -> None:
        self._looks += 1

    def ended(self) -> set[int]:
        return self._ended[min(self._looks, len(self._ended)) - 1]

    def scheduler_ended(self) -> bool:
        self._meanwhile()
        return False

    def exit_code(self, rank: int) -> int | None:
        return -9

    def blamed(self) -> list[int]:
        return list(self._named)


def judged(plan: LaunchPlan, ranks: Figures) -> Outcome:
    supervisor = Supervisor(plan, Tree("nobody"), Watch(plan), Streams().view(), StopSignals(), Peers(plan))
    outcome = None
    for _ in range(3):
        outcome = outcome or supervisor._judge(cast(Ranks, ranks))
    assert outcome is not None
    return outcome


def complains(plan: LaunchPlan, rank: int, ago: float = 0.0) -> Callable[[], None]:
    path = plan.files.events(rank)
    path.parent.mkdir(exist_ok=True)

    def write() -> None:
        if not path.exists():
            told = {"type": "ValueError", "message": "m"}
            path.write_text(to_line(Event(phase="error", rank=rank, pid=1, time=time.time() - ago, detail=told)))

    return write


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "SETTLE", 0.0)


def test_who_was_killed_by_msrun_is_not_the_cause(plan: Plan) -> None:
    """Rank 0 said why it fails and left, msrun saw it and killed rank 1: all since the last look."""
    two = plan(2)
    outcome = judged(two, Figures({0, 1}, named=(0,), meanwhile=complains(two, 0)))
    assert [(error.rank, error.type) for error in outcome.errors] == [(0, "ValueError")] and outcome.stopped == (1,)


def test_who_dies_and_is_complained_of_since_the_look_is_the_cause(plan: Plan) -> None:
    two = plan(2)
    outcome = judged(two, Figures(set(), {1}, meanwhile=complains(two, 0)))
    assert [(error.rank, error.type, error.followed) for error in outcome.errors] == [(1, "Died", False), (0, "ValueError", True)]


def test_who_dies_of_anothers_error_is_not_the_cause(plan: Plan) -> None:
    """Rank 0 had failed by the time at which rank 1 was seen alive."""
    two = plan(2)
    outcome = judged(two, Figures(set(), {1}, meanwhile=complains(two, 0, ago=1.0)))
    assert outcome.errors[0].rank == 0
