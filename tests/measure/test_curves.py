"""Percentiles, moving statistics, spikes: against numpy, and on curves made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import step

from mindrecipe.measure import curves


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 0.99, 1.0])
def test_percentiles_are_numpys(count: int, share: float) -> None:
    values = list(np.random.default_rng(count).normal(size=count))
    assert curves.percentile(values, share) == pytest.approx(float(np.percentile(values, 100 * share)))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60), st.integers(1, 30))
def test_moving_mean_and_variance_are_those_of_the_window(values: list[float], window: int) -> None:
    for place, (mean, variance) in enumerate(curves.moving(values, window)):
        kept = values[max(0, place + 1 - window) : place + 1]
        assert mean == pytest.approx(np.mean(kept), abs=1e-6) and variance == pytest.approx(np.var(kept), abs=1e-4)


def test_profiled_steps_are_no_steps_of_the_runs_speed() -> None:
    records = [step(number, step_time=9.0 if number in (5, 6) else 1.0, profiled=number in (5, 6)) for number in range(1, 11)]
    assert [record.step for record in curves.timed(records)] == [3, 4, 7, 8, 9, 10]
    assert curves.percentiles([record.step_time for record in curves.timed(records)])["p99"] == 1.0


def test_a_loss_that_is_not_a_number_leaves_the_window_again() -> None:
    found = curves.moving([1.0, math.nan, 2.0, 2.0], window=2)
    assert found[0] == (1.0, 0.0) and math.isnan(found[1][0]) and math.isnan(found[2][0]) and found[3] == (2.0, 0.0)


def _noisy(losses: list[float], seed: int = 3) -> list[float]:
    noise = np.random.default_rng(seed).normal(scale=0.05, size=len(losses))
    return [loss + float(off) for loss, off in zip(losses, noise, strict=True)]


def test_spikes_stand_out_and_a_falling_curve_has_none() -> None:
    losses = _noisy([7.0 - 3.0 * (1 - math.exp(-n / 20)) for n in range(100)])
    assert curves.spikes([step(n + 1, loss=loss) for n, loss in enumerate(losses)]) == []
    losses[50] += 2.0
    losses[52] += 2.0
    assert curves.spikes([step(n + 1, loss=loss) for n, loss in enumerate(losses)]) == [51, 53]


def test_a_rise_that_lasts_is_no_spike() -> None:
    """It is a new level, above which a spike still stands out."""
    losses = _noisy([4.0] * 40 + [8.0] * 60)
    losses[80] += 2.0
    assert curves.spikes([step(n + 1, loss=loss) for n, loss in enumerate(losses)]) == [81]
    short = _noisy([4.0] * 40 + [8.0] * 6 + [4.0] * 30)
    assert curves.spikes([step(n + 1, loss=loss) for n, loss in enumerate(short)]) == list(range(41, 47))


def test_no_steps_no_shares() -> None:
    assert curves.time_shares([]) is None and curves.compile_time([step(1), step(2)]) is None
    assert curves.percentiles([]) == {"p50": None, "p95": None, "p99": None}
