"""The checkpoint interval: the formula's own optimum, and its limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.checkpoints.interval import DEVICE_HOURS, SaveInterval, best_interval, lost_share


@given(save=st.floats(0.01, 600), between=st.floats(1e4, 1e8))
def test_near_youngs_optimum_nothing_near_is_much_better(save: float, between: float) -> None:
    best = best_interval(save, between)
    lost = lost_share(best, save, between)
    assert best == pytest.approx(math.sqrt(2 * save * between), rel=0.35)
    for factor in (0.25, 4):
        assert lost_share(best * factor, save, between) > lost


def test_the_published_rate() -> None:
    assert 50_000 < DEVICE_HOURS < 51_000
    # 16,384 devices fail every three hours; a save of a minute is then best every 18 minutes or so
    assert best_interval(60, DEVICE_HOURS / 16_384 * 3600) == pytest.approx(1120, rel=0.1)


def test_saving_that_takes_longer_than_the_machine_lives() -> None:
    assert best_interval(100, 20) == 20


@given(size=st.integers(1, 1 << 45), devices=st.integers(1, 1 << 20))
def test_the_advice_keeps_its_bounds(size: int, devices: int) -> None:
    found = SaveInterval.of(size, devices)
    assert found is not None and 0 < found.best <= max(found.between, 2 * math.sqrt(found.save * found.between))
    assert 0 <= found.lost <= 1 and found.steps(1e9) == 1


def test_a_published_job() -> None:
    """Llama 3's: 16,384 devices, a failure every 3.1 hours; nothing is advised where the size is not known."""
    found = SaveInterval.of(60 << 30, 16_384)
    assert found is not None and found.save == 60 and found.between == pytest.approx(3.093 * 3600, rel=0.001)
    assert found.best == pytest.approx(1120, rel=0.01) and found.steps(10) == 112
    assert found.lost == pytest.approx(60 / 1120 + 1120 / 2 / found.between, rel=0.1), "to first order"
    assert SaveInterval.of(0, 8) is None
