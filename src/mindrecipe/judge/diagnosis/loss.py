"""A loss that does not do what it should: not a number, flat, rising, spiking; updates that are skipped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure import curves
from mindrecipe.measure.record import StepRecord

OVERFLOWS, STREAK, FLAT, RISE, RISE_NATS, SPIKES = 0.05, 8, 0.01, 0.05, 0.2, 2
_METRICS = "metrics.jsonl"


@cause
def loss_not_a_number(run: Recorded) -> Iterator[Diagnosis]:
    """The run is lost. Which of the usual causes it is, in their order: too high a rate, half precision, data."""
    steps = run.steps
    bad = run.summary.get("first_bad_step") or next((record.step for record in steps if not math.isfinite(record.loss)), None)
    if bad is None:
        return
    before = [record for record in steps if record.step < bad]
    norms = [record.grad_norm for record in before[-10:] if record.grad_norm is not None]
    usual = statistics.median(norms) if norms else math.nan
    rose = len(before) >= 3 and _rises(before)
    rate = float(run.config.get("optimizer", {}).get("learning_rate") or 0.0)
    half = any(str(value).endswith("float16") for value in run.config.get("amp", {}).values())
    suspects = [
        (rose or (norms and max(norms) > 10 * usual), f"optimizer.learning_rate={rate / 10:g} schedule.warmup_ratio=0.1"),
        (half, "amp.softmax_dtype=float32 amp.layernorm_dtype=float32, or amp.dtype=bfloat16 where the device has it"),
        (True, "the batch of that step: `dataset.shuffle=false`, and read its rows; optimizer.grad_clip=1.0 where it is null"),
    ]
    likely = [mend for holds, mend in suspects if holds]
    told = f"losses before: {', '.join(f'{record.loss:.3g}' for record in before[-4:]) or 'none'}; gradient norms up to "
    yield Diagnosis(
        cause="loss_not_a_number",
        cost=1.0,
        what=f"the loss is not a number from step {bad} on",
        evidence=f"{_METRICS}: {told}{max(norms, default=math.nan):.3g}",
        threshold="",
        mend="; then ".join(likely),
    )


@cause
def loss_rises(run: Recorded) -> Iterator[Diagnosis]:
    """It had been lower: the rate is too high for what has been learnt."""
    finite = [record for record in run.steps if math.isfinite(record.loss)]
    if len(finite) < 2 * LEAST_STEPS or len(finite) < len(run.steps):
        return
    means = [mean for mean, _ in curves.moving([record.loss for record in finite])][curves.WINDOW - 1 :]
    first, best, last = finite[0].loss, min(means), means[-1]
    at = finite[means.index(best) + curves.WINDOW - 1].step
    if first < best:  # it never was as low again as before the first update
        best, at = first, finite[0].step
    if last - best <= max(RISE * best, RISE_NATS):
        return
    rate = float(run.config.get("optimizer", {}).get("learning_rate") or 0.0)
    yield Diagnosis(
        cause="loss_rises",
        cost=0.95,
        what=f"the loss rises: {best:.2f} at its best, {last:.2f} at the end (means of {curves.WINDOW} steps)",
        evidence=f"{_METRICS}: best at step {at} of {finite[-1].step}",
        threshold=f"{100 * RISE:.0f} % and {RISE_NATS} nats over its best",
        mend=f"optimizer.learning_rate={rate / 3:g} schedule.warmup_ratio=0.1",
    )


@cause
def loss_flat(run: Recorded) -> Iterator[Diagnosis]:
    """Nothing is learnt beyond the frequencies of tokens, or nothing at all."""
    losses = [loss for loss in run.losses if math.isfinite(loss)]
    third = len(losses) // 3
    if third < LEAST_STEPS or len(losses) < len(run.losses):
        return
    early, late = statistics.fmean(losses[:third]), statistics.fmean(losses[-third:])
    entropy = (run.derived.get("dataset") or {}).get("unigram_entropy")
    learnt = entropy is not None and late < 0.97 * float(entropy)
    if early - late > FLAT * early or learnt or late > early + RISE_NATS:
        return
    rate = float(run.config.get("optimizer", {}).get("learning_rate") or 0.0)
    yield Diagnosis(
        cause="loss_flat",
        cost=0.9,
        what=f"the loss does not fall: {early:.2f} in the first third, {late:.2f} in the last",
        evidence=f"{_METRICS}: loss; the unigram entropy of the data is {entropy if entropy is None else round(float(entropy), 2)}",
        threshold=f"{100 * FLAT:.0f} %",
        mend=f"optimizer.learning_rate={rate * 10:g}; labels that do not belong to their inputs; frozen parameters",
    )


@cause
def loss_spikes(run: Recorded) -> Iterator[Diagnosis]:
    """Spikes that go at once are bad batches; spikes that take their time to go are updates too large."""
    found = curves.spikes(run.steps)
    if len(found) < SPIKES:
        return
    by_step = {record.step: record for record in run.steps}
    starts = [step for step in found if step - 1 not in found]
    dirty = len(found) <= 2 * len(starts)  # rows of one kind may lie in two batches
    rate = float(run.config.get("optimizer", {}).get("learning_rate") or 0.0)
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
        mend="read the rows of those steps, and clean them; optimizer.grad_clip=0.5 keeps them from doing harm"
        if dirty
        else f"optimizer.learning_rate={rate / 3:g} or optimizer.grad_clip=0.5",
    )


@cause
def overflow_streaks(run: Recorded) -> Iterator[Diagnosis]:
    """Updates are skipped because gradients overflow in half precision. The first ones only find the loss scale."""
    steps = run.steps[LEAST_STEPS:]
    skipped = sum(record.overflow for record in steps)
    streak = _longest([record.overflow for record in run.steps])
    if not steps or (skipped / len(steps) <= OVERFLOWS and streak < STREAK):
        return
    scale = next((record.loss_scale for record in reversed(run.steps) if record.loss_scale), None)
    yield Diagnosis(
        cause="overflow_streaks",
        cost=skipped / len(steps),
        what=f"{skipped} of {len(steps)} updates were skipped because gradients overflowed (longest streak {streak})",
        evidence=f"{_METRICS}: overflow; loss scale {scale:g} at the end" if scale else f"{_METRICS}: overflow",
        threshold=f"{100 * OVERFLOWS:.0f} % after the first {LEAST_STEPS} steps, or {STREAK} in a row",
        mend="amp.loss_scale=dynamic amp.loss_scale_value=1024 amp.softmax_dtype=float32, or amp.dtype=bfloat16 where the device has it",
    )


def _rises(steps: Sequence[StepRecord]) -> bool:
    last = [record.loss for record in steps[-3:]]
    return last[-1] > last[0] and last[-1] > min(record.loss for record in steps) + RISE_NATS


def _longest(flags: Sequence[bool]) -> int:
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best
