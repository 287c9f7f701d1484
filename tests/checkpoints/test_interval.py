"""The checkpoint interval: the formula's own optimum, and its limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.checkpoints.interval import DEVICE_HOURS, best_interval, lost_share


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
