"""Where a run stands, from what its ranks report."""

from __future__ import annotations

import math

import pytest
from samples import step

from mindrecipe.measure.record import Event
from mindrecipe.measure.view.progress import Curve, Progress


def event(phase: str, rank: int, time: float = 0.0, **detail: object) -> Event:
    return Event(phase=phase, rank=rank, pid=1, time=time, detail=dict(detail))


def test_the_phase_is_that_of_the_slowest_rank() -> None:
    progress = Progress(10, ranks=2, clock=lambda: 100.0)
    assert (progress.phase, progress.phase_label) == ("start", "starting the ranks")
    progress.on_event(event("compile", 0, 40.0))
    assert progress.phase == "start", "the other rank has not reported yet"
    progress.on_event(event("import", 1, 30.0))
    assert (progress.phase, progress.phase_elapsed) == ("import", 70.0)
    progress.on_event(event("compile", 1, 60.0))
    assert (progress.phase, progress.phase_elapsed) == ("compile", 40.0)
    progress.on_step(step(1))
    assert progress.phase == "train"


def test_a_checkpoint_is_a_moment_not_a_phase() -> None:
    progress = Progress(10)
    progress.on_event(event("train", 0))
    progress.on_event(event("checkpoint", 0, step=8))
    assert (progress.phase, progress.saved) == ("train", 8)


def test_the_pace_leaves_the_first_step_out() -> None:
    progress = Progress(100)
    assert (progress.eta, progress.step_time, progress.tokens_per_s, progress.share) == (None, None, None, None)
    progress.on_step(step(1, step_time=60.0, tokens_per_s=1.0))
    assert (progress.eta, progress.step_time) == (None, 60.0)
    for number in range(2, 51):
        progress.on_step(step(number, step_time=0.5, tokens_per_s=100.0, overflow=number == 7))
    assert progress.eta == pytest.approx(25.0)
    assert (progress.tokens_per_s, progress.share, progress.overflows) == (100.0, 0.5, 1)


def test_without_a_number_of_steps_there_is_no_eta() -> None:
    progress = Progress(None)
    progress.on_step(step(1))
    progress.on_step(step(2))
    assert (progress.eta, progress.share) == (None, None)


def test_more_steps_than_planned_leave_no_negative_time() -> None:
    progress = Progress(2)
    for number in range(1, 5):
        progress.on_step(step(number))
    assert (progress.eta, progress.share) == (0.0, 1.0)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000, 12345])
def test_a_curve_of_any_length_stays_small_and_true(count: int) -> None:
    curve = Curve(capacity=8)
    for number in range(count):
        curve.add(float(number))
    values = curve.values()
    assert len(values) <= 8
    assert values == sorted(values)
    assert values[0] < count / 4 + 1
    assert values[-1] > count / 2 - 1


def test_a_curve_shows_what_is_not_a_number() -> None:
    curve = Curve()
    curve.add(math.nan)
    assert math.isnan(curve.values()[0])
