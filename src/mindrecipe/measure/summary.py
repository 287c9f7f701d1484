"""The figures of a finished run: a pure function of what its ranks reported and how it ended."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from mindrecipe.measure import curves
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import Event, StepRecord, Usage
from mindrecipe.measure.used import mean_usage, undisturbed

_MOMENTS = ("alarm", "save", "checkpoint")  # events of training that are no phase of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One rank's share of the held-out evaluation: the sum of its tokens' losses (nats), and how many tokens."""

    loss_sum: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The clock of one launch, seconds since the epoch; ``first_step`` is when the first step had ended, null if none did."""

    started: float
    ended: float
    first_step: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """summary.json. Losses are nats a token, times seconds, memory bytes; null is "was not measured".

    Speeds are of this launch's steps after the first two, whose times are ``warm_up_times``; ``compile_time`` is what the first one
    computed longer than usual. ``time_shares`` say where the time of the steps went. ``loss_mean`` and ``loss_variance`` are of the
    last 20 losses. ``clipped_steps`` had a gradient norm above optimizer.grad_clip. ``phases`` are seconds the first rank spent in
    each phase, ``usage`` means over the samples of the first rank (see :class:`mindrecipe.measure.record.Usage`). Speeds, memory and use
    are without profiled steps.
    ``save_stall`` is the median of what a checkpoint adds to its step.
    """

    state: str
    exit_code: int
    steps: int
    total_steps: int | None
    first_loss: float | None
    final_loss: float | None
    heldout_loss: float | None
    heldout_tokens: int
    perplexity: float | None
    unigram_entropy: float | None
    tokens_per_s: float | None
    samples_per_s: float | None
    step_time: dict[str, float | None]
    warm_up_times: list[float]
    compile_time: float | None
    time_to_first_step: float | None
    time_shares: dict[str, float] | None
    tflops_per_device: float | None
    mfu: float | None
    hfu: float | None
    peak_memory_bytes: int | None
    mean_memory_bytes: float | None
    usage: dict[str, float]
    loss_mean: float | None
    loss_variance: float | None
    overflow_steps: int
    clipped_steps: int | None
    spikes: list[int]
    saves: int
    save_stall: float | None
    first_bad_step: int | None
    phases: dict[str, float]
    checkpoints: list[str]
    started: str
    ended: str
    errors: list[dict[str, Any]]
    stopped_ranks: list[int]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in summary.json."""
        return asdict(self)


def summarise(
    outcome: Outcome,
    steps: Sequence[StepRecord],
    *,
    session: Session,
    earlier: Sequence[StepRecord] = (),
    events: Sequence[Event] = (),
    heldout: Sequence[HeldOut] = (),
    unigram_entropy: float | None = None,
    total_steps: int | None = None,
    checkpoints: Sequence[str] = (),
    usage: Sequence[Usage] = (),
    grad_clip: float | None = None,
    tokens_per_sample: int | None = None,
) -> Summary:
    """The summary of a run that ended as ``outcome``.

    ``steps`` are this launch's records, ``earlier`` those of launches that this one resumed: their speeds and memory count where this one
    had nothing left to train. Numbers of no meaning are null: no speed from fewer than three steps, no held-out loss without
    held-out tokens.
    """
    whole = history([*earlier, *steps])
    if not steps and outcome.state == "completed":
        steps = earlier
    timed = curves.timed(steps)
    loss = heldout_loss(heldout)
    speed = _median(record.tokens_per_s for record in timed)
    memory = [record.memory_bytes for record in steps if record.memory_bytes is not None and not record.profiled]
    moving = curves.moving([record.loss for record in whole])
    mean, variance = moving[-1] if moving else (None, None)
    return Summary(
        state=outcome.state,
        exit_code=outcome.exit_code,
        steps=whole[-1].step if whole else 0,
        total_steps=total_steps,
        first_loss=whole[0].loss if whole else None,
        final_loss=whole[-1].loss if whole else None,
        heldout_loss=loss,
        heldout_tokens=sum(part.tokens for part in heldout),
        perplexity=None if loss is None else perplexity(loss),
        unigram_entropy=unigram_entropy,
        tokens_per_s=speed,
        samples_per_s=None if speed is None or not tokens_per_sample else speed / tokens_per_sample,
        step_time=curves.percentiles([record.step_time for record in timed]),
        warm_up_times=[record.step_time for record in list(steps)[: curves.WARM_UP_STEPS]],
        compile_time=curves.compile_time(steps),
        time_shares=curves.time_shares(timed),
        time_to_first_step=None if session.first_step is None else session.first_step - session.started,
        tflops_per_device=_median(record.tflops_per_device for record in timed if record.tflops_per_device is not None),
        mfu=_median(record.mfu for record in timed if record.mfu is not None),
        hfu=_median(record.hfu for record in timed if record.hfu is not None),
        peak_memory_bytes=max(memory, default=None),
        mean_memory_bytes=statistics.fmean(memory) if memory else None,
        usage=mean_usage(undisturbed(usage, steps, started=session.started, first_step=session.first_step)),
        loss_mean=mean,
        loss_variance=variance,
        overflow_steps=sum(record.overflow for record in whole),
        clipped_steps=None if grad_clip is None else sum(clipped(record, grad_clip) for record in whole),
        spikes=curves.spikes(whole),
        saves=len(saving := _saving(timed, events)),
        save_stall=_stall(timed, saving),
        first_bad_step=first_bad_step(whole, outcome),
        phases=phase_times(events, session.ended),
        checkpoints=list(checkpoints),
        started=_iso(session.started),
        ended=_iso(session.ended),
        errors=[error.as_dict() for error in outcome.errors],
        stopped_ranks=list(outcome.stopped),
        notes=list(outcome.notes),
    )


def _saving(steps: Sequence[StepRecord], events: Sequence[Event]) -> list[StepRecord]:
    """The steps at which a checkpoint was saved."""
    at = {event.detail.get("step") for event in events if event.phase == "save"}
    return [record for record in steps if record.step in at]


def _stall(steps: Sequence[StepRecord], saving: Sequence[StepRecord]) -> float | None:
    """What saving adds to a step: the median time of its callbacks over that of steps that do not save."""
    others = [record.other_time for record in steps if record not in saving]
    if not saving or not others:
        return None
    return max(0.0, statistics.median(record.other_time for record in saving) - statistics.median(others))


def history(records: Iterable[StepRecord]) -> list[StepRecord]:
    """The steps that led to the final weights: a resumed run takes back what was done after the checkpoint it started from."""
    kept: list[StepRecord] = []
    for record in records:
        while kept and kept[-1].step >= record.step:
            kept.pop()
        kept.append(record)
    return kept


def heldout_loss(parts: Iterable[HeldOut]) -> float | None:
    """Mean loss of a held-out token over all ranks: sum over sum, so that unequal shards weigh by their tokens."""
    parts = list(parts)
    tokens = sum(part.tokens for part in parts)
    return sum(part.loss_sum for part in parts) / tokens if tokens else None


def perplexity(loss: float) -> float:
    """exp(loss), infinite where that is beyond a float."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def first_bad_step(steps: Iterable[StepRecord], outcome: Outcome) -> int | None:
    """The step at which a diverged run went bad: as its rank said, else the first whose loss is not finite."""
    if outcome.state != "diverged":
        return None
    told = [error.step for error in outcome.errors if error.step is not None]
    return min(told) if told else next((record.step for record in steps if not math.isfinite(record.loss)), None)


def phase_times(events: Sequence[Event], ended: float) -> dict[str, float]:
    """Seconds in each phase of the lowest rank that reported; a phase entered twice counts twice.

    "checkpoint" marks a moment of training, not a phase: how long saving took is in the steps' ``other_time``.
    """
    if not events:
        return {}
    rank = min(event.rank for event in events)
    own = sorted(
        (event for event in events if event.rank == rank and event.phase not in _MOMENTS),
        key=lambda event: event.time,
    )
    ends = [event.time for event in own[1:]] + [ended]
    times: dict[str, float] = {}
    for event, end in zip(own, ends, strict=True):
        if event.phase not in ("done", "stopped", "error"):
            times[event.phase] = round(times.get(event.phase, 0.0) + max(0.0, end - event.time), 3)
    return times


def clipped(record: StepRecord, grad_clip: float) -> bool:
    """Whether the step's gradients were scaled down to a norm of ``grad_clip``."""
    return record.grad_norm is not None and record.grad_norm > grad_clip


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat(timespec="milliseconds")
