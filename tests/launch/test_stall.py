"""What is a hang and what is none, on a clock of our own."""

from __future__ import annotations

from mindrecipe.launch.stall import StallClock
from mindrecipe.measure.record import Event, StepRecord


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def step(number: int, took: float = 1.0) -> StepRecord:
    return StepRecord(
        step=number, epoch=1, loss=1.0, lr=1.0, grad_norm=None, loss_scale=None, overflow=False, step_time=took, data_time=0.0,
        compute_time=1.0, other_time=0.0, tokens_per_s=1.0, tflops_per_device=0.0, mfu=None, memory_bytes=None,
    )  # fmt: skip


def event(phase: str) -> Event:
    return Event(phase=phase, rank=0, pid=1, time=0.0, detail={})


def stall(multiple: float | None = 10, at_least: float = 5) -> tuple[StallClock, Clock]:
    clock = Clock()
    return StallClock(multiple, at_least, clock), clock


def test_compiling_is_no_hang_however_long() -> None:
    watched, clock = stall()
    clock.now = 10_000
    assert watched.stalled_for is None
    watched.step(step(1, took=9_000))
    clock.now = 30_000
    assert watched.stalled_for is None, "one step says nothing of the next"


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


def test_saving_and_evaluating_are_none() -> None:
    for phase in ("save", "evaluate"):
        watched, clock = stall()
        for number in range(1, 5):
            watched.step(step(number))
        watched.event(event(phase))
        clock.now = 1e6
        assert watched.stalled_for is None
    watched, clock = stall()
    for number in range(1, 5):
        watched.step(step(number))
    watched.event(event("save"))
    clock.now = 100
    watched.event(event("checkpoint"))
    clock.now = 105
    assert watched.stalled_for is None
    clock.now = 111
    assert watched.stalled_for == 11, "once it is saved the next step is due"
