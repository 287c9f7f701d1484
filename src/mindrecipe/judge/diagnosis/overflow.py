"""Updates that are skipped because gradients overflow in half precision, and losses that are no numbers for good."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.record import StepRecord

OVERFLOWS, STREAK = 0.05, 8
#: bad losses in a row whose updates were skipped, that a dynamic loss scale may still get over (worker/verdict.py)
FORGIVEN = 3
_METRICS = "metrics.jsonl"


@cause
def overflow_streaks(run: Recorded) -> Iterator[Diagnosis]:
    """Updates are skipped. The first ones only find the loss scale, unless the run ended by them (worker/verdict.py, Overflow)."""
    ended = any(error.get("type") == "Overflow" for error in run.summary.get("errors") or ())
    steps = run.steps if ended else run.steps[LEAST_STEPS:]
    flags = [record.overflow for record in steps]
    skipped, streak = sum(flags), _longest(flags)
    if not skipped or not (ended or skipped / len(steps) > OVERFLOWS or streak >= STREAK):
        return
    scale = next((record.loss_scale for record in reversed(run.steps) if record.loss_scale), None)
    told = "; the run ended by them" if ended else ""
    yield Diagnosis(
        cause="overflow_streaks",
        cost=1.0 if ended else skipped / len(steps),
        what=f"{skipped} of {len(steps)} updates were skipped because gradients overflowed (longest streak {streak}){told}",
        evidence=f"{_METRICS}: overflow; loss scale {scale:g} at the end" if scale else f"{_METRICS}: overflow",
        threshold="" if ended else f"{100 * OVERFLOWS:.0f} %, or {STREAK} in a row, after the first {LEAST_STEPS} steps",
        mend=words.mend(words.rescaled(run), words.safer(run), words.wider(run), words.rate(run, 1 / 3)),
    )


def _longest(flags: Sequence[bool]) -> int:
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best


def bad_step(run: Recorded) -> int | None:
    """The first step of what made an end of the run: as its rank said, else the first of the bad losses that last to the end.

    None where all losses are numbers, or were again: a loss scale forgives.
    """
    last: list[StepRecord] = []
    for record in reversed(run.steps):
        if math.isfinite(record.loss):
            break
        last.append(record)
    for error in run.summary.get("errors") or ():
        if error.get("type") == "Diverged":
            told = error.get("step") or run.summary.get("first_bad_step")
            return int(told) if told is not None else (last[-1].step if last else None)
    lasting = len(last) > FORGIVEN or any(not record.overflow for record in last)
    return last[-1].step if lasting else None
