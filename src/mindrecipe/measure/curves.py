"""Curves of a run read as a person would: moving mean and variance, spikes, percentiles, where the time of its steps went."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from mindrecipe.measure.record import StepRecord

WARM_UP_STEPS = 2  # the first step compiles, the second still fills caches: neither says how fast the run is
WINDOW = 20
_SPIKE = 6.0  # robust standard deviations above the median of the window before
_LEAST_SPREAD = 0.02  # nats: a plateau without noise would make a spike of every flicker


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that ``share`` of the values do not exceed, interpolated between neighbours (numpy's "linear"); None of none."""
    if not values:
        return None
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p95 and p99."""
    return {f"p{q}": percentile(values, q / 100) for q in (50, 95, 99)}


def moving(values: Sequence[float], window: int = WINDOW) -> list[tuple[float, float]]:
    """Mean and variance of the last up to ``window`` values at each place; NaN as long as one in the window is not finite."""
    found, kept = [], deque[float](maxlen=window)
    for value in values:
        kept.append(value)
        found.append(mean_and_variance(kept))
    return found


def mean_and_variance(values: Collection[float]) -> tuple[float, float]:
    """Of all ``values`` (at least one); NaN where one is not finite. In floats: statistics.pvariance counts in fractions, and takes 20
    times as long, at every step."""
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / len(values)


def robust_deviation(values: Collection[float]) -> float:
    """The standard deviation of ``values`` (at least one), from their median deviation: single outliers do not count."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def spikes(steps: Sequence[StepRecord], window: int = WINDOW) -> list[int]:
    """Steps whose loss stands out above the ``window`` before: more than six robust deviations over their median.

    A rise that lasts half a window is a new level, from which spikes are told then, and no spike itself.
    """
    found: list[int] = []
    before: deque[float] = deque(maxlen=window)
    high: list[float] = []
    for record in steps:
        known = len(before) == window and math.isfinite(record.loss)
        if known and record.loss - statistics.median(before) > _SPIKE * max(robust_deviation(before), _LEAST_SPREAD):
            found.append(record.step)
            high.append(record.loss)
            if len(high) * 2 >= window:
                del found[-len(high) :]
                before.extend(high)
                high.clear()
            continue  # one bad batch must not hide the next
        if math.isfinite(record.loss):
            high.clear()
            before.append(record.loss)
    return found


def timed(steps: Sequence[StepRecord]) -> list[StepRecord]:
    """The steps that say how fast a run is: all but those that warm up, and those that were profiled.

    A run that was started again warms up again, in the middle of ``steps``: there its records are marked (:class:`StepRecord`).
    """
    return [record for record in list(steps)[WARM_UP_STEPS:] if not record.profiled and not record.warm_up]


def time_shares(steps: Iterable[StepRecord]) -> dict[str, float] | None:
    """Share of the steps' whole time by where it went: data, compute, checkpoint, other; None of no steps."""
    records = list(steps)
    whole = sum(record.step_time for record in records)
    if not whole:
        return None
    saving = sum(record.checkpoint_time for record in records)
    return {
        "data": sum(record.data_time for record in records) / whole,
        "compute": sum(record.compute_time for record in records) / whole,
        "checkpoint": saving / whole,
        "other": max(0.0, sum(record.other_time for record in records) - saving) / whole,
    }


def compile_time(steps: Sequence[StepRecord]) -> float | None:
    """Seconds that the first step computed longer than the median of those that follow: what compiling its graph took."""
    usual = percentile([record.compute_time for record in timed(steps)], 0.5)
    return None if usual is None else max(0.0, steps[0].compute_time - usual)
