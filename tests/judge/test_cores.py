"""Who measures speeds is told to leave a core, where none is left and one could be."""

from __future__ import annotations

import re

import pytest

from mindrecipe.judge.cores import advice
from mindrecipe.run import Run

ALL = ("+model=llama2_tiny",)


def told(*sides: tuple[str, ...], cores: int = 8) -> str | None:
    return advice([Run.from_overrides([*ALL, *side]).derived for side in sides], cores)


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))


@pytest.mark.parametrize(
    ("sides", "threads"),
    [
        ([(), ()], 7),
        ([("parallel=data", "launch.workers=2"), ("parallel=data", "launch.workers=2")], 3),
        ([(), ("parallel=data", "launch.workers=2")], 3),  # the same on every side
        ([("launch.threads_per_worker=7",), ()], 7),  # it is enough that one takes all
        ([("launch.threads_per_worker=8",)], 7),
    ],
)
def test_what_is_told_leaves_a_core_on_every_side(sides: list[tuple[str, ...]], threads: int) -> None:
    said = told(*sides)
    assert said is not None
    (word,) = re.findall(r"launch\.threads_per_worker=\d+", said)
    assert word == f"launch.threads_per_worker={threads}"
    assert told(*((*(each for each in side if "threads" not in each), word) for side in sides)) is None


@pytest.mark.parametrize(
    "side",
    [
        ("launch.threads_per_worker=7",),
        ("parallel=data", "launch.workers=8"),  # ranks can't have less than a core each
        ("parallel=data", "launch.workers=7"),
        ("device=ascend_910b2",),
    ],
)
def test_nothing_is_told_where_a_core_is_left_or_can_not_be(side: tuple[str, ...]) -> None:
    assert told(side) is None


def test_of_one_core_nothing_can_be_left() -> None:
    assert told((), cores=1) is None


def test_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert told(()) is None
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert told(()) is not None
