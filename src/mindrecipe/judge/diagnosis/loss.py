"""A loss that does not do what it should: not a number, flat, rising, spiking."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.oscillation import detrended, loss_oscillates
from mindrecipe.judge.diagnosis.overflow import bad_step
from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure import curves
from mindrecipe.measure.record import StepRecord

FLAT, RISE, RISE_NATS, SPIKES = 0.01, 0.05, 0.2, 2
#: standard errors of a mean of curves.WINDOW losses: the lowest of many such means lies three below their course by chance alone
CHANCE = 6.0
#: what gives a model its weights, besides checkpoint.resume: knobs, and mindformers' own keys
_LOADS = (
    "checkpoint.load", "native.load_checkpoint", "native.checkpoint.load_path", "native.model.model_config.checkpoint_name_or_path",
    "model.extra.checkpoint_name_or_path",
)  # fmt: skip
_METRICS = "metrics.jsonl"


@cause
def loss_not_a_number(run: Recorded) -> Iterator[Diagnosis]:
    """The run is lost. Which of the usual causes it is, in their order: too high a rate, half precision, data.

    A bad loss whose update a loss scale had skipped, and that was a number again, is none; nor is an end by overflowing gradients.
    """
    steps = run.steps
    bad = bad_step(run)
    if bad is None:
        return
    before = [record for record in steps if record.step < bad]
    norms = [record.grad_norm for record in before[-10:] if record.grad_norm is not None]
    usual = statistics.median(norms) if norms else math.nan
    rose = len(before) >= 3 and _rises(before)
    likely = [
        words.rate(run, 0.1) if rose or (norms and max(norms) > 10 * usual) else None,
        words.safer(run),
        words.wider(run),
        "read the rows of that step's batch",
        words.clip(run, 1.0) if words.value(run, "optimizer.grad_clip") is None else None,
    ]
    told = f"losses before: {', '.join(f'{record.loss:.3g}' for record in before[-4:]) or 'none'}; gradient norms up to "
    yield Diagnosis(
        cause="loss_not_a_number",
        cost=1.0,
        what=f"the loss is not a number from step {bad} on",
        evidence=f"{_METRICS}: {told}{max(norms, default=math.nan):.3g}",
        threshold="",
        mend=words.mend(*likely),
    )


@cause
def loss_rises(run: Recorded) -> Iterator[Diagnosis]:
    """It had been lower: the rate is too high for what has been learnt.

    By more than single batches differ. Weights that were drawn at random give every batch the same loss: there, and only there, the first
    loss alone says how low it was before the first update.
    """
    finite = [record for record in run.steps if math.isfinite(record.loss)]
    if len(finite) < 2 * LEAST_STEPS or bad_step(run) is not None:
        return
    losses = [record.loss for record in finite]
    means = [mean for mean, _ in curves.moving(losses)][curves.WINDOW - 1 :]
    best, last = min(means), means[-1]
    at, of = finite[means.index(best) + curves.WINDOW - 1].step, f"means of {curves.WINDOW} steps"
    if losses[0] < best and not _has_weights(run):  # it never was as low again as before the first update
        best, at, of = losses[0], finite[0].step, f"before the first update; at the end the mean of {curves.WINDOW} steps"
    if last - best <= max(RISE * best, RISE_NATS):
        return
    chance = CHANCE * curves.robust_deviation(detrended(losses)) / math.sqrt(curves.WINDOW)
    if last - best <= chance:
        return
    yield Diagnosis(
        cause="loss_rises",
        cost=0.95,
        what=f"the loss rises: {best:.2f} at its best, {last:.2f} at the end ({of})",
        evidence=f"{_METRICS}: best at step {at} of {finite[-1].step}",
        threshold=f"{100 * RISE:.0f} % and {RISE_NATS} nats over its best, and {chance:.2f} ({CHANCE:g} standard errors of such a mean)",
        mend=words.mend(words.rate(run, 1 / 3), words.clip(run, 0.5)),
    )


def _has_weights(run: Recorded) -> bool:
    """Whether its weights were trained before: it goes on from another run's checkpoint (and has none of its steps), or loads them."""
    return run.steps[0].step > 1 or any(words.value(run, key) for key in _LOADS)


@cause
def loss_flat(run: Recorded) -> Iterator[Diagnosis]:
    """Nothing is learnt beyond the frequencies of tokens, or nothing at all."""
    losses = [loss for loss in run.losses if math.isfinite(loss)]
    third = len(losses) // 3
    if third < LEAST_STEPS or bad_step(run) is not None:
        return
    early, late = statistics.fmean(losses[:third]), statistics.fmean(losses[-third:])
    entropy = (run.derived.get("dataset") or {}).get("unigram_entropy")
    learnt = entropy is not None and late < 0.97 * float(entropy)
    if early - late > FLAT * early or learnt or late > early + RISE_NATS:
        return
    yield Diagnosis(
        cause="loss_flat",
        cost=0.9,
        what=f"the loss does not fall: {early:.2f} in the first third, {late:.2f} in the last",
        evidence=f"{_METRICS}: loss; the unigram entropy of the data is {entropy if entropy is None else round(float(entropy), 2)}",
        threshold=f"{100 * FLAT:.0f} %",
        mend=words.mend(words.rate(run, 10), "look for labels that do not belong to their inputs, and for frozen parameters"),
    )


@cause
def loss_spikes(run: Recorded) -> Iterator[Diagnosis]:
    """Spikes that go at once are bad batches; spikes that take their time to go are updates too large.

    Of a loss that swings as a whole they are a part, and no cause of their own.
    """
    found = curves.spikes(run.steps)
    if len(found) < SPIKES or any(loss_oscillates(run)):
        return
    by_step = {record.step: record for record in run.steps}
    starts = [step for step in found if step - 1 not in found]
    dirty = len(found) <= 2 * len(starts)  # rows of one kind may lie in two batches
    worst = max(found, key=lambda step: by_step[step].loss)
    norm = by_step[worst].grad_norm
    yield Diagnosis(
        cause="dirty_data" if dirty else "loss_spikes",
        cost=min(0.8, len(found) / len(run.steps) * 5),
        what=f"{len(found)} losses stand out"
        + (" and are gone at once: batches unlike the others" if dirty else " and take their time to fall"),
        evidence=f"{_METRICS}: steps {', '.join(map(str, found[:6]))}{', ...' if len(found) > 6 else ''}; the worst, step {worst}, has a "
        f"loss of {by_step[worst].loss:.2f}" + (f" and a gradient norm of {norm:.3g}" if norm is not None else ""),
        threshold=f"more than six robust deviations above the {curves.WINDOW} steps before, {SPIKES} times",
        mend=words.mend("read the rows of those steps, and clean them", f"{words.clip(run, 0.5)} (keeps them from doing harm)")
        if dirty
        else words.mend(words.rate(run, 1 / 3), words.clip(run, 0.5)),
    )


def _rises(steps: Sequence[StepRecord]) -> bool:
    last = [record.loss for record in steps[-3:]]
    return last[-1] > last[0] and last[-1] > min(record.loss for record in steps) + RISE_NATS
