"""What is a hang and what is none, on a clock of our own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.stall import LONGEST_PAUSE, StallClock, usual_step
from mindrecipe.measure.record import Event, StepRecord, to_line


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def step(number: int, took: float = 1.0) -> StepRecord:
    return StepRecord(
        step=number, epoch=1, loss=1.0, lr=1.0, grad_norm=None, loss_scale=None, overflow=False, step_time=took, data_time=0.0,
        compute_time=1.0, other_time=0.0, tokens_per_s=1.0, tflops_per_device=0.0, mfu=None, memory_bytes=None,
    )  # fmt: skip


def event(phase: str, rank: int = 0) -> Event:
    return Event(phase=phase, rank=rank, pid=1, time=0.0, detail={})


def stall(multiple: float | None = 10, at_least: float = 5, **options: Any) -> tuple[StallClock, Clock]:
    clock = Clock()
    return StallClock(multiple, at_least, clock, **options), clock


def test_compiling_is_no_hang_however_long() -> None:
    watched, clock = stall()
    clock.now = 10_000
    assert watched.stalled_for is None
    watched.step(step(1, took=9_000))
    clock.now = 30_000
    assert watched.stalled_for is None, "a step that compiles says little of the next"


def test_many_times_the_median_is_one() -> None:
    watched, clock = stall()
    for number, took in enumerate([100.0, 1.0, 1.0, 1.0], 1):
        watched.step(step(number, took))
    clock.now = 9.9
    assert watched.stalled_for is None and watched.limit == 10
    clock.now = 10.1
    assert watched.stalled_for == 10.1
    watched.step(step(5))
    assert watched.stalled_for is None


def test_short_steps_have_a_floor_and_null_is_never() -> None:
    watched, clock = stall()
    never, other = stall(None)
    for number in range(1, 5):
        watched.step(step(number, 0.01))
        never.step(step(number, 0.01))
    clock.now, other.now = 4.9, 1e9
    assert watched.stalled_for is None and never.stalled_for is None
    clock.now = 5.1
    assert watched.stalled_for is not None


def busy(phase: str, steps: int = 4, **options: Any) -> tuple[StallClock, Clock]:
    """After ``steps`` steps a rank enters ``phase``."""
    watched, clock = stall(**options)
    for number in range(1, steps + 1):
        watched.step(step(number))
    watched.event(event(phase))
    return watched, clock


def test_saving_and_evaluating_may_take_long_but_not_for_ever() -> None:
    for phase in ("save", "evaluate"):
        for steps in (0, 4):  # a checkpoint of the first step is saved before the step is told
            watched, clock = busy(phase, steps)
            clock.now = LONGEST_PAUSE * 5 - 1
            assert watched.stalled_for is None
            watched.event(event(phase))  # it still gets on
            clock.now = 2 * LONGEST_PAUSE * 5 - 2
            assert watched.stalled_for is None
            clock.now += 2
            assert watched.stalled_for is not None and "saving and evaluating may take (150 s" in watched.allows
            never, other = busy(phase, steps, multiple=None)
            other.now = 1e9
            assert never.stalled_for is None


def test_once_it_is_saved_the_next_step_is_due() -> None:
    watched, clock = busy("save")
    clock.now = 100
    watched.event(event("checkpoint"))
    clock.now = 105
    assert watched.stalled_for is None
    clock.now = 111
    assert watched.stalled_for == 11 and "launch.stall_timeout allows (10 s)" in watched.allows


def test_what_one_rank_has_saved_another_may_still_save() -> None:
    watched, clock = stall(ranks=range(2))
    for number in range(1, 5):
        watched.step(step(number))
    for rank in range(2):
        watched.event(event("save", rank))
    watched.event(event("checkpoint"))
    clock.now = 100
    assert watched.stalled_for is None
    watched.step(step(5))
    clock.now = 111
    assert watched.stalled_for == 11, "no rank is behind a step that has ended"


def test_a_rank_that_is_done_excuses_no_other() -> None:
    watched, clock = stall(ranks=range(2))
    for number in range(1, 5):
        watched.step(step(number))
    watched.event(event("done"))
    clock.now = 11
    assert watched.stalled_for == 11
    watched.event(event("done", 1))
    clock.now = 1e9
    assert watched.stalled_for is None


def test_after_the_last_step_there_is_no_next_one() -> None:
    """Its checkpoint is finished in the background, and nobody says so before it is."""
    watched, clock = stall(last=4)
    for number in range(1, 5):
        watched.step(step(number))
    clock.now = 100
    assert watched.stalled_for is None
    clock.now = LONGEST_PAUSE * 5 + 1
    assert watched.stalled_for is not None


def test_before_there_are_enough_steps_an_earlier_attempt_tells_what_is_usual() -> None:
    watched, clock = stall(usual=2.0)
    clock.now = 1e9
    assert watched.stalled_for is None, "it may still compile"
    watched.step(step(1, took=300.0))
    clock.now += 21
    assert watched.stalled_for == 21


def test_without_one_the_shortest_step_does() -> None:
    watched, clock = stall()
    watched.step(step(1, took=9_000))
    clock.now = 89_999
    assert watched.stalled_for is None
    watched.step(step(2, took=3.0))
    clock.now += 31
    assert watched.stalled_for == 31


def test_the_newest_earlier_attempt_counts(tmp_path: Path) -> None:
    plan = LaunchPlan(run_dir=tmp_path)
    assert usual_step(plan) is None
    for number, (name, took, count) in enumerate([("metrics.jsonl", 1.0, 4), ("metrics.1.jsonl", 2.0, 5), ("metrics.2.jsonl", 3.0, 2)]):
        (tmp_path / name).write_text("".join(to_line(step(each, took)) for each in range(1, count + 1)))
        os.utime(tmp_path / name, (1000 + number, 1000 + number))
    assert usual_step(plan) == 2.0, "two steps say too little"
    (tmp_path / "metrics.1.jsonl").unlink()
    assert usual_step(plan) == 1.0
