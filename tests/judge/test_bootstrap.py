"""How often intervals are right where the truth is known: turns of steps whose noise lasts longer than a turn, processes that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mindrecipe.judge import bootstrap
from mindrecipe.judge.rounds import TIMES, interval
from mindrecipe.judge.thresholds import THRESHOLDS
from mindrecipe.judge.verdicts import decide

TRIALS = 150
Array = np.ndarray[Any, Any]


def turns(draw: np.random.Generator, correlation: float, *, pairs: int = 40, steps: int = 5, spread: float = 0.05) -> Array:
    """Times of steps around 0.2 s: slow noise (autoregressive, ``correlation`` from step to step), and single steps that are disturbed."""
    count = pairs * steps
    noise = np.empty(count)
    noise[0] = draw.normal(scale=spread)
    for place, shock in enumerate(draw.normal(scale=spread * np.sqrt(1 - correlation**2), size=count - 1)):
        noise[place + 1] = correlation * noise[place] + shock
    disturbed = np.where(draw.random(count) < 0.05, draw.exponential(0.1, count), 0.0)
    return np.asarray(0.2 * np.exp(noise + disturbed)).reshape(pairs, steps)


def missed(statistic: Any, correlation: float, *, paired: bool) -> float:
    """Share of intervals between identical programs that do not hold zero."""
    draw, wrong = np.random.default_rng(7), 0
    for _ in range(TRIALS):
        found = bootstrap.difference(turns(draw, correlation).tolist(), turns(draw, correlation).tolist(), statistic, paired=paired)
        wrong += found.low > 0 or found.high < 0
    return wrong / TRIALS


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("statistic", [bootstrap.median, bootstrap.undisturbed])
def test_intervals_hold_the_truth_where_noise_outlasts_a_turn(statistic: Any, correlation: float) -> None:
    """A share of 5 % is meant; 10 % is nearly three deviations of 150 trials beyond. Turns drawn one by one miss more and more of them."""
    assert missed(statistic, correlation, paired=True) <= 0.10


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_intervals_of_runs_that_were_not_paired(correlation: float) -> None:
    assert missed(bootstrap.median, correlation, paired=False) <= 0.10


def test_turns_drawn_one_by_one_are_too_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the stretches are for."""
    monkeypatch.setattr(bootstrap, "STRETCHES", 40)
    monkeypatch.setattr(bootstrap, "T", (bootstrap._NORMAL,) * 40)
    assert missed(bootstrap.median, 0.9, paired=True) > 0.15


def test_a_slow_down_is_found() -> None:
    draw, found = np.random.default_rng(3), 0
    for _ in range(100):
        a, b = turns(draw, 0.5, spread=0.02), 1.05 * turns(draw, 0.5, spread=0.02)
        found += (
            decide(bootstrap.difference(a.tolist(), b.tolist(), bootstrap.median, paired=True), 0.025, more_is_better=False, more="")[0]
            == "worse"
        )
    assert found >= 95


def rates(spread: float, slower: float, rounds: int, trials: int = 2000) -> float:
    """Share of trials in which any time is judged different, where two processes of one program differ by ``spread`` (log, deviation)."""
    draw = np.random.default_rng(11)
    told = 0
    for _ in range(trials):
        shared = draw.normal(size=(rounds, 1))
        of_rounds = np.expm1(np.log1p(slower) + spread * (0.9**0.5 * shared + 0.1**0.5 * draw.normal(size=(rounds, 3))))
        found = [
            decide(interval(of_rounds[:, at].tolist()), THRESHOLDS[name].tolerance, more_is_better=False, more="")[0]
            for at, name in enumerate(TIMES[:3])
        ]
        told += bool({"better", "worse"} & set(found))
    return told / trials


@pytest.mark.parametrize("rounds", [3, 5, 8])
@pytest.mark.parametrize("spread", [0.01, 0.02, 0.04, 0.08])
def test_rounds_of_identical_recipes_are_judged_different_in_five_percent_of_trials_at_most(spread: float, rounds: int) -> None:
    assert rates(spread, 0.0, rounds) <= 0.05


def test_five_rounds_find_five_percent_where_processes_differ_by_one() -> None:
    assert rates(0.01, 0.05, 5) >= 0.95
