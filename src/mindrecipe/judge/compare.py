"""Two runs compared, metric by metric, against thresholds that were declared beforehand: same, better, worse, or not comparable.

A metric has changed when its difference is beyond the tolerance and its confidence interval excludes zero. Where the interval is
wider than the tolerance nothing can be said: that metric is "unclear", which is never taken for "same". On CPU a run is one process,
whose own speed no interval over its steps can see: between two such runs only a large difference of speed is one (verdicts.py, ALONE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from mindrecipe.judge import bootstrap
from mindrecipe.judge.bootstrap import Difference
from mindrecipe.judge.measured import NOISY, Identity, Measured
from mindrecipe.judge.verdicts import ALONE, Metric, alone, decide, overall

EXIT_CODES = {"same": 0, "worse": 1, "better": 3, "not comparable": 4}
DESPITE = ("hardware", "data")
IN_ROUNDS = "`mindrecipe bench A B --rounds 5`"
ONE_EACH = (
    f"one process on each side: two of one recipe may differ in speed by {100 * ALONE:.0f} % for as long as they live, which their steps "
    f"can't show; less than that is told by {IN_ROUNDS}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The verdict on ``b`` against ``a``. ``why_not`` names what makes the two incomparable; ``notes`` other differences."""

    a: Identity
    b: Identity
    metrics: list[Metric]
    verdict: str
    why_not: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 same, 1 worse, 3 better, 4 not comparable."""
        return EXIT_CODES[self.verdict]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def compare(
    a: Measured,
    b: Measured,
    tolerances: Mapping[str, float],
    *,
    despite: Sequence[str] = (),
    only: Sequence[str] = (),
    paired: bool = False,
) -> Comparison:
    """``b`` against ``a``; ``despite`` names what may differ all the same, ``only`` the metrics that count (none: all);
    ``paired``: their blocks were measured in turns."""
    why_not = differences(a.identity, b.identity, despite)
    notes = _notes(a, b)
    if why_not:
        return Comparison(a=a.identity, b=b.identity, metrics=[], verdict="not comparable", why_not=why_not, notes=notes)
    speeds = _speeds(a, b, tolerances, paired=paired)
    if not paired and speeds and a.identity.hardware.get("device") == "cpu":
        speeds = [alone(metric, IN_ROUNDS) for metric in speeds]
        notes.append(ONE_EACH)
    metrics = [*_losses(a, b, tolerances), *speeds]
    metrics.append(_plain("memory", a.peak_memory_bytes, b.peak_memory_bytes, tolerances))
    metrics += _evaluations(a, b, tolerances)
    known = [metric for metric in metrics if (metric.a is not None or metric.b is not None) and (not only or metric.name in only)]
    verdict = overall([metric.verdict for metric in known])
    unclear = [f"{metric.name}: {metric.note}" for metric in known if metric.verdict == "unclear"]
    return Comparison(
        a=a.identity, b=b.identity, metrics=known, verdict=verdict, why_not=unclear if verdict == "not comparable" else [], notes=notes
    )


def plain(value: Any) -> Any:
    """``value`` for JSON, which has no infinities: they become text, as in metrics.jsonl."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def differences(a: Identity, b: Identity, despite: Sequence[str] = ()) -> list[str]:
    """What forbids a comparison, in words."""
    found = []
    if "hardware" not in despite:
        keys = [key for key in {**a.hardware, **b.hardware} if a.hardware.get(key) != b.hardware.get(key)]
        found += [f"hardware differs: {key} is {a.hardware.get(key)} in A and {b.hardware.get(key)} in B" for key in keys]
    if "data" not in despite and a.data != b.data:
        found.append(f"the data sets differ: {(a.data or 'unknown')[:12]} in A and {(b.data or 'unknown')[:12]} in B")
    return found


def _notes(a: Measured, b: Measured) -> list[str]:
    left, right = a.identity.versions, b.identity.versions
    notes = [f"{name}: {left.get(name)} in A, {right.get(name)} in B" for name in {**left, **right} if left.get(name) != right.get(name)]
    if a.identity.config_hash != b.identity.config_hash:
        notes.append("the configurations differ (`mindrecipe diff A B` says in what)")
    return notes


def _losses(a: Measured, b: Measured, tolerances: Mapping[str, float]) -> list[Metric]:
    common = sorted(set(a.losses) & set(b.losses))
    found = []
    if common and a.identity.seed == b.identity.seed and a.tokens_per_step == b.tokens_per_step:
        left, right = (np.array([losses[step] for step in common]) for losses in (a.losses, b.losses))
        found = _pointwise(left, right, common, tolerances)
    found.append(_plain("final_loss", a.final_loss, b.final_loss, tolerances))
    found.append(_plain("heldout_loss", a.heldout_loss, b.heldout_loss, tolerances))
    return found


def _pointwise(left: Any, right: Any, common: Sequence[int], tolerances: Mapping[str, float]) -> list[Metric]:
    """Seed for seed the curves must be the same ones: a difference either way is unexplained, and counts as worse."""
    finite = bool(np.isfinite(left).all() and np.isfinite(right).all())
    off = np.abs(right - left) / np.maximum(np.abs(left), 1e-12)
    largest = float(off.max()) if finite else math.inf
    correlation = _correlation(left, right) if finite else 0.0
    at = int(np.argmax(off > tolerances["loss_pointwise"])) if finite else int(np.argmax(~np.isfinite(right) | ~np.isfinite(left)))
    same = largest <= tolerances["loss_pointwise"]
    first = "" if same else f"first beyond at step {common[at]}: {left[at]:.6g} and {right[at]:.6g}"
    alike = correlation >= tolerances["loss_correlation"]
    return [
        Metric(name="loss_correlation", a=1.0, b=correlation, difference=None, tolerance=tolerances["loss_correlation"],
               verdict="same" if alike else "worse"),
        Metric(name="loss_pointwise", a=0.0, b=largest, difference=None, tolerance=tolerances["loss_pointwise"],
               verdict="same" if same else "worse", note=first),
    ]  # fmt: skip


def _correlation(left: Any, right: Any) -> float:
    """Pearson's; 1 for equal curves, flat ones included."""
    if np.array_equal(left, right):
        return 1.0
    if len(left) < 2 or left.std() == 0 or right.std() == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def _speeds(a: Measured, b: Measured, tolerances: Mapping[str, float], *, paired: bool) -> list[Metric]:
    if not a.blocks or not b.blocks:
        return []
    noisy, more = ("", "more --pairs, or --rounds 5") if paired else (_noise(a, b), "more steps, or in turns with `mindrecipe bench`")
    took = bootstrap.difference(a.blocks, b.blocks, bootstrap.median, paired=paired)
    scale = (a.tokens_per_step or 1) and (b.tokens_per_step or 1) / (a.tokens_per_step or 1)
    faster = Difference(*(scale / (1 + part) - 1 for part in (took.value, took.high, took.low)))
    late = bootstrap.difference(a.blocks, b.blocks, bootstrap.p95, paired=paired)
    times = [bootstrap.p95(np.array(measured.step_times)) for measured in (a, b)]
    found = [
        _with_interval("throughput", a.tokens_per_s, b.tokens_per_s, faster, tolerances, more_is_better=True, noisy=noisy, more=more),
        _with_interval("step_p95", float(times[0]), float(times[1]), late, tolerances, more_is_better=False, noisy=noisy, more=more),
    ]
    if a.cpu_blocks and b.cpu_blocks and a.identity.hardware.get("device") == "cpu":
        used = bootstrap.difference(a.cpu_blocks, b.cpu_blocks, bootstrap.undisturbed, paired=paired)
        left, right = (float(bootstrap.undisturbed(np.ravel(measured.cpu_blocks))) for measured in (a, b))
        found.append(_with_interval("cpu_time", left, right, used, tolerances, more_is_better=False, noisy="", more=more))
    return found


def _evaluations(a: Measured, b: Measured, tolerances: Mapping[str, float]) -> list[Metric]:
    """Where both were evaluated, on the same tokens and with the same batch."""
    left, right = a.evaluation, b.evaluation
    if not left or not right or any(left[key] != right[key] for key in ("data", "tokens", "batch_size")):
        return []
    timed = [
        _plain("evaluation_latency", left["latency"]["p50"], right["latency"]["p50"], tolerances),
        _plain("evaluation_throughput", left["tokens_per_s"], right["tokens_per_s"], tolerances),
    ]
    most = max(left["others"], right["others"])
    if most > NOISY and a.identity.hardware.get("device") == "cpu":
        note = f"other processes used {100 * most:.0f} % of the cores: evaluate again"
        timed = [replace(metric, verdict="unclear", note=note) for metric in timed]
    loss = _plain("evaluation_loss", left["loss"], right["loss"], tolerances)
    return [loss, *timed, _plain("evaluation_memory", left["memory_bytes"], right["memory_bytes"], tolerances)]


def _noise(a: Measured, b: Measured) -> str:
    if a.identity.hardware.get("device") != "cpu":
        return ""
    shares = [measured.others for measured in (a, b)]
    if None in shares:
        return "what other processes used is not known (too short, or monitor.usage_interval=null): in turns with `mindrecipe bench`"
    most = max(share for share in shares if share is not None)
    if most <= NOISY:
        return ""
    return f"other processes used {100 * most:.0f} % of the cores: measure again, or in turns with `mindrecipe bench`"


def _with_interval(
    name: str,
    a: float | None,
    b: float | None,
    found: Difference,
    tolerances: Mapping[str, float],
    *,
    more_is_better: bool,
    noisy: str,
    more: str,
) -> Metric:
    tolerance = tolerances[name]
    verdict, note = ("unclear", noisy) if noisy else decide(found, tolerance, more_is_better=more_is_better, more=more)
    return Metric(
        name=name, a=a, b=b, difference=found.value, low=found.low, high=found.high, tolerance=tolerance, verdict=verdict, note=note
    )


def _plain(name: str, a: float | None, b: float | None, tolerances: Mapping[str, float]) -> Metric:
    """Of a figure that was measured once; less is better, but of a throughput."""
    tolerance = tolerances[name]
    if a is None or b is None:
        note = "" if a is None and b is None else f"not measured in {'A' if a is None else 'B'}"
        return Metric(name=name, a=a, b=b, difference=None, tolerance=tolerance, verdict="unclear" if note else "same", note=note)
    if not math.isfinite(b) or not math.isfinite(a):
        verdict = "same" if not math.isfinite(b) and not math.isfinite(a) else "worse" if math.isfinite(a) else "better"
        return Metric(name=name, a=a, b=b, difference=None, tolerance=tolerance, verdict=verdict)
    off = b / a - 1 if a else math.inf if b else 0.0
    verdict = "same" if abs(off) <= tolerance else "worse" if (off > 0) != name.endswith("throughput") else "better"
    return Metric(name=name, a=a, b=b, difference=off, tolerance=tolerance, verdict=verdict)
