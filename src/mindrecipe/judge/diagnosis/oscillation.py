"""A loss that swings: up and down from one step to the next, and further than its batches differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.overflow import bad_step
from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure import curves

#: nats that rows of one text collection differ by (standard deviation), at the most: a batch's mean differs by that over its square root
ROWS = 1.0
#: correlation with itself some steps later that batches drawn at random do not have, at least so many standard errors away from none
REGULAR, CERTAIN = -0.4, 4.0
#: of the level, and nats: a swing below is too small to do harm
SMALL, SMALL_NATS = 0.02, 0.05
LAGS = curves.WINDOW // 2
_METRICS = "metrics.jsonl"


@cause
def loss_oscillates(run: Recorded) -> Iterator[Diagnosis]:
    """Steps that are too long: each lands on the other side of the valley. Seen in the second half, less its own course.

    Two signs, either of which is enough: the loss is spread more than rows differ (a robust deviation: single bad batches do not count;
    rows that are not shuffled are alike within a batch, and differ more between batches), or it goes up and down regularly. Data that
    repeats within the lags looked at is regular by itself, and is judged by its spread alone.
    """
    known = [record for record in run.steps if math.isfinite(record.loss)]
    late = [record.loss for record in known[len(known) // 2 :]]
    if len(late) < LEAST_STEPS or bad_step(run) is not None:
        return
    rest = detrended(late)
    spread = curves.robust_deviation(rest)
    expected = ROWS / math.sqrt(int(run.derived.get("global_batch_size") or 1))
    level = statistics.median(late)
    lag, correlation = most_opposed(rest)
    small, opposed = max(SMALL * level, SMALL_NATS), min(REGULAR, -CERTAIN / math.sqrt(len(rest)))
    regular = correlation < opposed and int(run.derived.get("steps_per_epoch") or 2 * LAGS) >= 2 * LAGS
    wide = spread > expected and bool(run.config.get("dataset", {}).get("shuffle", True))
    if spread <= small or not (wide or regular):
        return
    often = f", and after {lag} steps lies on the other side (correlation {correlation:.2f})" if regular else ""
    yield Diagnosis(
        cause="loss_oscillates",
        cost=0.85,
        what=f"the loss swings by {spread:.2f} nats about its course{often}: the steps are too long",
        evidence=f"{_METRICS}: loss of steps {known[-len(late)].step} to {known[-1].step}, less their moving mean; "
        f"their level is {level:.2f}",
        threshold=f"{expected:.2f} nats, what batches of {run.derived.get('global_batch_size')} rows differ by at the most; or "
        f"{small:.2f} nats with a correlation below {opposed:.2f}",
        mend=words.mend(words.rate(run, 1 / 3), words.calmer(run), words.clip(run, 0.5), words.larger_batch(run)),
    )


def detrended(losses: Sequence[float]) -> list[float]:
    """Losses less the line through the steps around each: what is slower than the window is course, not swing. At the ends the window
    has one side only, whose mean alone would take a slope for a swing."""
    found = []
    for place, loss in enumerate(losses):
        first = max(0, place - LAGS)
        near = losses[first : place + LAGS + 1]
        slope = statistics.linear_regression(range(len(near)), near).slope if len(near) < 2 * LAGS + 1 else 0.0
        found.append(loss - statistics.fmean(near) - slope * (place - first - (len(near) - 1) / 2))
    return found


def most_opposed(rest: Sequence[float]) -> tuple[int, float]:
    """The lag of up to LAGS steps at which ``rest`` is least like itself, and its correlation there; (0, 0.0) of a constant."""
    mean = statistics.fmean(rest)
    whole = math.fsum((value - mean) ** 2 for value in rest)
    if not whole:
        return 0, 0.0
    found = {
        lag: math.fsum((rest[place] - mean) * (rest[place + lag] - mean) for place in range(len(rest) - lag)) / whole
        for lag in range(1, min(LAGS, len(rest) - 1) + 1)
    }
    lag = min(found, key=found.__getitem__)
    return lag, found[lag]
