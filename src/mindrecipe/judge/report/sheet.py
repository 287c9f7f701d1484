"""What a report says, as plain values: figures, curves, where the time went, ranks, verdicts, configuration. JSON as it stands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mindrecipe.judge import thresholds
from mindrecipe.judge.compare import DESPITE, Comparison, compare, differences
from mindrecipe.judge.diagnosis import Diagnosis, diagnose
from mindrecipe.judge.measured import Measured, measure
from mindrecipe.judge.profile import Profile, first_profile
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure import curves
from mindrecipe.measure.record import StepRecord
from mindrecipe.measure.view import text

POINTS = 400  # of a curve: more than a page has pixels for are not drawn
BUCKETS = 60  # columns of the rank map
Curve = list[tuple[float, float]]

_CURVES: dict[str, Callable[[StepRecord], float | None]] = {
    "loss": lambda record: record.loss,
    "grad norm": lambda record: record.grad_norm,
    "learning rate": lambda record: record.lr,
    "tokens/s": lambda record: record.tokens_per_s,
    "step time, ms": lambda record: 1e3 * record.step_time,
    "memory, GiB": lambda record: None if record.memory_bytes is None else record.memory_bytes / 2**30,
    "update to weight ratio": lambda record: record.update_ratio,
}
_WITHOUT_WARM_UP = ("tokens/s", "step time, ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSheet:
    """One run. ``figures`` are (name, value as text); ``ranks`` rows of milliseconds, one a rank, the time it did not wait for others."""

    title: str
    path: str
    state: str
    figures: list[tuple[str, str]]
    curves: dict[str, Curve]
    loss_mean: Curve
    layers: dict[str, Curve]
    time_shares: dict[str, float] | None
    ranks: dict[int, list[float]]
    usage: dict[str, Curve]
    diagnoses: list[Diagnosis]
    profile: Profile | None
    summary: dict[str, Any]
    config: dict[str, Any]
    lock: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The whole report: runs, and the first of them compared with each of the others."""

    runs: list[RunSheet]
    comparisons: list[Comparison]


def sheet(runs: Sequence[Recorded]) -> Sheet:
    """Everything a report of ``runs`` says."""
    measured = [measure(run) for run in runs]
    tolerances = thresholds.parse(())
    return Sheet(runs=[_of(run) for run in runs], comparisons=[_compared(measured[0], other, tolerances) for other in measured[1:]])


def _compared(first: Measured, other: Measured, tolerances: Mapping[str, float]) -> Comparison:
    """Figures of runs on other hardware, or of other data, are shown side by side too, but are no verdict on either."""
    found = compare(first, other, tolerances, despite=DESPITE)
    differ = differences(first.identity, other.identity)
    if not differ:
        return found
    notes = [note for note in found.notes if note not in differ]
    return replace(found, verdict="not comparable", why_not=[*differ, *found.why_not], notes=notes)


def _of(run: Recorded) -> RunSheet:
    return RunSheet(
        title=run.title,
        path=str(run.path),
        state=str(run.summary.get("state", "unfinished")),
        figures=figures(run),
        curves={name: found for name, read in _CURVES.items() if (found := _curve(run, name, read))},
        loss_mean=thinned([(record.step, mean) for record, (mean, _) in zip(run.steps, curves.moving(run.losses), strict=True)]),
        layers=_layers(run),
        time_shares=curves.time_shares(run.timed),
        ranks=_ranks(run),
        usage=_usage(run),
        diagnoses=diagnose(run),
        profile=first_profile(run),
        summary=run.summary,
        config=run.config,
        lock=run.lock,
    )


def figures(run: Recorded) -> list[tuple[str, str]]:
    """The figures of the summary that a person asks for first."""
    summary = run.summary
    step_time = summary.get("step_time") or {}

    def told(name: str, form: Callable[[Any], str]) -> str | None:
        value = summary.get(name)
        return None if value is None else form(value)

    rows: list[tuple[str, str | None]] = [
        ("state", str(summary.get("state", "unfinished"))),
        ("steps", f"{run.reached} of {summary.get('total_steps') or '?'}"),
        ("final loss", told("final_loss", text.loss)),
        ("held-out loss", told("heldout_loss", text.loss)),
        ("perplexity", told("perplexity", text.quantity)),
        ("tokens/s", told("tokens_per_s", text.quantity)),
        ("samples/s", told("samples_per_s", text.quantity)),
        ("step p50, p95, p99", ", ".join(text.seconds(value) for value in step_time.values()) if all(step_time.values()) else None),
        ("compile", told("compile_time", text.seconds)),
        ("time to first step", told("time_to_first_step", text.seconds)),
        ("FLOP/s a device", told("tflops_per_device", text.tflops)),
        ("MFU", told("mfu", lambda value: f"{100 * value:.1f} %")),
        ("HFU", told("hfu", lambda value: f"{100 * value:.1f} %")),
        ("peak memory", told("peak_memory_bytes", text.size)),
        ("clipped steps", told("clipped_steps", str)),
        ("skipped steps (overflow)", told("overflow_steps", str)),
        ("loss spikes", told("spikes", lambda found: str(len(found)))),
        ("restarts", ", ".join(f"from step {attempt['from_step']}" for attempt in run.restarts)),
    ]
    return [(name, value) for name, value in rows if value]


def thinned(points: Sequence[tuple[float, float]], most: int = POINTS) -> Curve:
    """At most ``most`` points: of each stretch its mean step and its mean value; what is not finite is left out."""
    finite = [point for point in points if math.isfinite(point[1])]
    stride = math.ceil(len(finite) / most) if finite else 1
    stretches = [finite[place : place + stride] for place in range(0, len(finite), stride)]
    return [(statistics.fmean(step for step, _ in part), statistics.fmean(value for _, value in part)) for part in stretches]


def _curve(run: Recorded, name: str, read: Callable[[StepRecord], float | None]) -> Curve:
    records = run.timed if name in _WITHOUT_WARM_UP else run.steps
    points = [(float(record.step), value) for record in records if (value := read(record)) is not None]
    return thinned(points) if len(points) > 1 else []


def _layers(run: Recorded) -> dict[str, Curve]:
    groups = dict.fromkeys(name for record in run.steps[:1] for name in record.grad_groups or ())
    found = {}
    for name in groups:
        points = [(float(record.step), record.grad_groups[name]) for record in run.steps if record.grad_groups]
        found[name] = thinned(points)
    return found


def _ranks(run: Recorded) -> dict[int, list[float]]:
    """Mean milliseconds a step that a rank spent by itself (data and callbacks), in at most BUCKETS stretches of the run."""
    found = {}
    for rank, records in run.rank_timed.items():
        own = [1e3 * (record.data_time + record.other_time) for record in records]
        stride = math.ceil(len(own) / BUCKETS) if own else 1
        found[rank] = [statistics.fmean(own[place : place + stride]) for place in range(0, len(own), stride)]
    return found


def _usage(run: Recorded) -> dict[str, Curve]:
    samples = run.usage.get(0) or []
    if len(samples) < 2:
        return {}
    start = samples[0].time
    kinds: dict[str, Callable[[Any], float | None]] = {
        "cores, this process": lambda sample: sample.cpu,
        "cores, all processes": lambda sample: sample.host_cpu,
        "disk write, MiB/s": lambda sample: None if sample.disk_write is None else sample.disk_write / 2**20,
        "network sent, MiB/s": lambda sample: sample.net_sent / 2**20,
        "NPU, share": lambda sample: sample.npu,
    }
    told = {}
    for name, read in kinds.items():
        points = [(sample.time - start, value) for sample in samples if (value := read(sample)) is not None]
        if any(value for _, value in points):
            told[name] = thinned(points)
    return told
