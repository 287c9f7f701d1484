"""What a run used of its machine, summed up: without the stretches in which the profiler used it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from mindrecipe.measure.record import StepRecord, Usage


def undisturbed(samples: Sequence[Usage], steps: Sequence[StepRecord], *, started: float, first_step: float | None) -> list[Usage]:
    """The samples (each is of the time since the one before) of stretches in which no step was profiled.

    Records have no clock of their own: steps follow each other from the end of the first one on, at ``first_step`` (seconds since the
    epoch).
    """
    if first_step is None:
        return list(samples)
    watched, end = list[tuple[float, float]](), first_step
    for number, record in enumerate(steps):
        began = end if number else end - record.step_time
        end = began + record.step_time
        if record.profiled:
            watched.append((began, end))
    since = [started, *(sample.time for sample in samples)]
    return [
        sample
        for before, sample in zip(since, samples, strict=False)
        if not any(before < last and first < sample.time for first, last in watched)
    ]


def mean_usage(samples: Sequence[Usage]) -> dict[str, float]:
    """Mean of each quantity over the samples that have it."""
    found = {}
    for name in Usage.__dataclass_fields__:
        values = [value for value in (getattr(sample, name) for sample in samples) if value is not None]
        if values and name != "time":
            found[name] = statistics.fmean(values)
    return found


def others_share(host: float, own: float, cores: float) -> float:
    """Share (0 to 1) of ``cores`` that others used, where all processes used ``host`` of them and the run itself ``own``.

    Clocks of the two tick apart, and are read apart: a little less than none is none, and more than all there is is all.
    """
    return min(1.0, max(0.0, (host - own) / cores))
