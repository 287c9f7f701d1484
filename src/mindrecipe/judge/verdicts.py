"""One metric judged: what a difference, its interval and its tolerance make of it, and what many such verdicts make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindrecipe.judge.bootstrap import Difference

#: two processes of one program differed in speed by up to 10.5 % while they lived, on a loaded machine (docs/benchmarks.md)
ALONE = 0.15
#: told 5 % longer steps in every trial, where a core was left; five did in 87 % (docs/benchmarks.md)
ROUNDS = "--rounds 8"
#: what differs between two processes of one program
SPEEDS = ("throughput", "cpu_time", "step_p95")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One line of a comparison. ``verdict`` may also be "unclear"; ``difference`` is relative, b over a less 1, null where it is none."""

    name: str
    a: float | None
    b: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None
    tolerance: float
    verdict: str
    note: str = ""


def overall(verdicts: Sequence[str]) -> str:
    """One that is worse makes the whole worse; what is unclear can't be called same or better."""
    if "worse" in verdicts:
        return "worse"
    if "unclear" in verdicts or not verdicts:
        return "not comparable"
    return "better" if "better" in verdicts else "same"


def decide(found: Difference, tolerance: float, *, more_is_better: bool, more: str) -> tuple[str, str]:
    """Verdict and note on one difference: beyond the tolerance and certain, too uncertain to tell, or the same. ``more`` is what makes it
    more certain."""
    if (found.low > 0 or found.high < 0) and abs(found.value) > tolerance:
        return ("better" if (found.value > 0) == more_is_better else "worse"), ""
    if found.spread > tolerance:
        return "unclear", f"the noise of {100 * found.spread:.1f} % is larger than the tolerance: {more}"
    if abs(found.value) > tolerance:  # an interval that is wider on the side of zero
        return "unclear", f"a difference of {100 * found.value:+.1f} % that may be none: {more}"
    return "same", ""


def alone(metric: Metric, mend: str) -> Metric:
    """``metric``, a time of one process on each side: a difference of speed may be of these two, and not of their recipes."""
    if metric.name not in SPEEDS or metric.verdict not in ("better", "worse") or abs(metric.difference or 0.0) > ALONE:
        return metric
    return replace(metric, verdict="unclear", note=f"two processes of one recipe may differ by {100 * ALONE:.0f} %: {mend}")
