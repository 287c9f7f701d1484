"""Confidence intervals of the relative difference between two runs, by drawing stretches of their steps again and again.

A moving-block bootstrap (Kuensch 1989), of stretches of an eighth of the run: a disturbance of the machine lasts far longer than a
step, or a turn. Drawn one by one, turns of steps whose noise is correlated give intervals that are several times too narrow
(tests/judge/test_bootstrap.py). Few stretches say little of their own spread: the interval is widened as Student's t is over the normal.
``paired`` blocks were measured in turns: they are drawn together, and what disturbed both cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DRAWS = 1000
CONFIDENCE = 0.95
STRETCHES = 8
#: Student's t at 97.5 % by degrees of freedom
T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36)
_NORMAL = 1.96


@dataclass(frozen=True, slots=True)
class Difference:
    """``value`` is b over a less 1; ``low`` and ``high`` bound it with a confidence of 95 %."""

    value: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def difference(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    statistic: Callable[[Array], Array],
    *,
    paired: bool,
    seed: int = 0,
) -> Difference:
    """Of ``statistic`` (of (draws, n) values, along the last axis) between step times ``a`` and ``b``, given in blocks of equal length.

    ``paired``: block i of both was measured in the same turn, and the median of the turns' ratios is taken. Deterministic for a ``seed``.
    """
    left, right = np.asarray(a, float), np.asarray(b, float)
    draw = np.random.default_rng(seed)
    if paired:
        count = min(len(left), len(right))
        left, right = left[:count], right[:count]
        picked = _stretches(count, draw)
        if statistic not in (undisturbed, mean):  # which no single turn, and no single step, can show
            ratios = np.log(statistic(right)) - np.log(statistic(left))
            return _interval(float(np.median(ratios)), np.median(ratios[picked], axis=1), count)
        places = (picked, picked)
    else:
        places = (_stretches(len(left), draw), _stretches(len(right), draw))
    drawn = [statistic(blocks[picked].reshape(DRAWS, -1)) for blocks, picked in zip((left, right), places, strict=True)]
    whole = [float(statistic(blocks.reshape(1, -1))[0]) for blocks in (left, right)]
    return _interval(float(np.log(whole[1] / whole[0])), np.log(drawn[1]) - np.log(drawn[0]), min(len(left), len(right)))


def _stretches(count: int, draw: np.random.Generator) -> Array:
    """(DRAWS, count) places: stretches of neighbours, the last block being the first one's neighbour."""
    length = -(-count // STRETCHES)
    starts = draw.integers(count, size=(DRAWS, -(-count // length), 1))
    places: Array = (starts + np.arange(length)).reshape(DRAWS, -1)[:, :count] % count
    return places


def undisturbed(values: Array) -> Array:
    """15th percentile along the last axis: what a step takes when little comes between. Others only ever make a step longer."""
    found: Array = np.percentile(values, 15, axis=-1)
    return found


def mean(values: Array) -> Array:
    """Along the last axis."""
    found: Array = np.mean(values, axis=-1)
    return found


def median(values: Array) -> Array:
    """Along the last axis."""
    found: Array = np.median(values, axis=-1)
    return found


def p95(values: Array) -> Array:
    """95th percentile along the last axis."""
    found: Array = np.percentile(values, 95, axis=-1)
    return found


def _interval(value: float, drawn: Array, count: int) -> Difference:
    """Of logarithms of ratios, which were drawn from ``count`` blocks (at least two)."""
    low, high = np.percentile(drawn, [50 * (1 - CONFIDENCE), 100 - 50 * (1 - CONFIDENCE)])
    stretches = count // -(-count // STRETCHES)
    wider = T[stretches - 2] / _NORMAL * np.sqrt(stretches / (stretches - 1))
    bounds = (value - wider * max(0.0, value - low), value + wider * max(0.0, high - value))
    return Difference(*(float(np.expm1(part)) for part in (value, *bounds)))
