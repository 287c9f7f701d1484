"""Several rounds of a bench, each with fresh processes, put together.

Two processes of one and the same program differ in speed by a few per cent for as long as they live (where their memory lies, which
core they were given): turns can't see that, since it lasts as long as both. Only new processes average it away, and only their
spread tells how large it is: the interval is Student's over the rounds, and one round alone can tell only a large difference of speed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mindrecipe.judge.bootstrap import Difference
from mindrecipe.judge.compare import Comparison
from mindrecipe.judge.figures import LAST_LOSSES
from mindrecipe.judge.measured import Measured
from mindrecipe.judge.verdicts import ROUNDS, Metric, alone, decide, overall

TIMES = ("throughput", "cpu_time", "step_p95", "memory")
#: Student's t by degrees of freedom, at 1 - 0.05 / 8: the four of TIMES are judged at once, two-sided, and together they may be wrong
#: in 5 % of the trials of identical recipes (Bonferroni); beyond the table the normal's 2.50 and a little more
_T = (50.92, 8.86, 5.39, 4.31, 3.81, 3.52, 3.34, 3.21, 3.11, 3.04, 2.98, 2.93, 2.90, 2.86, 2.84, 2.81, 2.79, 2.77, 2.76)
_BEYOND = 2.76


def together(rounds: Sequence[Comparison], tolerances: Mapping[str, float]) -> Comparison:
    """The verdict over all ``rounds``: of times, memory and the final loss by the mean over rounds, of the rest the worst of any round."""
    if len(rounds) == 1:
        return _judged(rounds[0], [alone(metric, ROUNDS) for metric in rounds[0].metrics])
    metrics = []
    for name in dict.fromkeys(metric.name for found in rounds for metric in found.metrics):
        own = [metric for found in rounds for metric in found.metrics if metric.name == name]
        whole = len(own) == len(rounds) and all(metric.difference is not None and math.isfinite(metric.difference) for metric in own)
        if name in TIMES and whole:
            metrics.append(_mean(own, tolerances[name]))
        elif name == "final_loss" and whole:
            metrics.append(_end(own, tolerances[name]))
        else:  # of a time that a round has not measured too: what is not known of one is not known of all
            metrics.append(_worst(own))
    return _judged(rounds[0], metrics)


def _judged(found: Comparison, metrics: list[Metric]) -> Comparison:
    """``found`` with other ``metrics``, and what follows from them; what was not compared at all keeps its reasons."""
    if not metrics:
        return found
    verdict = overall([metric.verdict for metric in metrics])
    unclear = [f"{metric.name}: {metric.note}" for metric in metrics if metric.verdict == "unclear"]
    return replace(found, metrics=metrics, verdict=verdict, why_not=unclear if verdict == "not comparable" else [])


def joined(rounds: Sequence[Measured]) -> Measured:
    """One side of all rounds: its steps one after the other; losses and the rest are of the first."""
    blocks, cpu_blocks = ([block for each in rounds for block in getattr(each, name)] for name in ("blocks", "cpu_blocks"))
    return replace(rounds[0], blocks=blocks, cpu_blocks=cpu_blocks)


def interval(values: Sequence[float]) -> Difference:
    """Mean of relative differences, and where it and those of the other times lie, all with a confidence of 95 % (in logarithms)."""
    logs = [math.log1p(value) for value in values]
    middle, count = statistics.fmean(logs), len(logs)
    quantile = _T[count - 2] if count - 2 < len(_T) else _BEYOND
    half = quantile * statistics.stdev(logs) / math.sqrt(count)
    return Difference(math.expm1(middle), math.expm1(middle - half), math.expm1(middle + half))


def _mean(own: Sequence[Metric], tolerance: float) -> Metric:
    """Of a metric that every round has measured."""
    return _decided(own, interval([metric.difference or 0.0 for metric in own]), tolerance)


def _end(own: Sequence[Metric], tolerance: float) -> Metric:
    """Of the final loss: rounds of one seed see the same batches, whose noise is in the interval of each; the wider one counts."""
    between = interval([metric.difference or 0.0 for metric in own])
    low = min([between.low, *(metric.low for metric in own if metric.low is not None)])
    high = max([between.high, *(metric.high for metric in own if metric.high is not None)])
    return _decided(own, Difference(between.value, low, high), tolerance, LAST_LOSSES)


def _decided(own: Sequence[Metric], found: Difference, tolerance: float, more: str = "more --rounds") -> Metric:
    verdict, note = decide(found, tolerance, more_is_better=own[0].name == "throughput", more=more)
    return replace(
        own[0],
        a=statistics.fmean(metric.a or 0.0 for metric in own),
        b=statistics.fmean(metric.b or 0.0 for metric in own),
        difference=found.value,
        low=found.low,
        high=found.high,
        verdict=verdict,
        note=note,
    )


def _worst(own: Sequence[Metric]) -> Metric:
    order = ("worse", "unclear", "better", "same")
    return min(own, key=lambda metric: order.index(metric.verdict))
