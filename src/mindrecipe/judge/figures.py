"""Two runs' figures, each made a metric with its verdict: whether they completed, their losses, speeds and evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mindrecipe.judge import bootstrap
from mindrecipe.judge.bootstrap import Difference
from mindrecipe.judge.measured import BLOCK, LAST, NOISY, Identity, Measured
from mindrecipe.judge.verdicts import ROUNDS, Metric, decide

Tolerances = Mapping[str, float]
#: what helps where the batches of the last steps differ too much to tell
LAST_LOSSES = "a wider --threshold final_loss=..., or the held-out loss (evaluate=at_end)"


def completion(a: Measured, b: Measured) -> list[Metric]:
    """None where both completed. A side that did not is the worse one: what it lacks is in no other figure. Where neither did, or one
    trains still, nothing follows."""
    if a.state == b.state == "completed":
        return []
    one_did = "completed" in (a.state, b.state) and "running" not in (a.state, b.state)
    verdict = "unclear" if not one_did else "worse" if a.state == "completed" else "better"
    told = [f"{side} is {run.state}{_reached(run)}" for side, run in (("A", a), ("B", b)) if run.state != "completed"]
    did = [float(run.state == "completed") for run in (a, b)]
    return [Metric(name="completed", a=did[0], b=did[1], difference=None, tolerance=0.0, verdict=verdict, note=", ".join(told))]


def _reached(run: Measured) -> str:
    return f" (after step {max(run.losses)})" if run.losses else ""


def losses(a: Measured, b: Measured, tolerances: Tolerances) -> list[Metric]:
    """Step by step where seed, data, tokens and the order of the rows are the same, and at the end."""
    common = sorted(set(a.losses) & set(b.losses))
    found = []
    if common and _same_batches(a, b):
        left, right = (np.array([losses[step] for step in common]) for losses in (a.losses, b.losses))
        found = _pointwise(left, right, common, tolerances)
    return [*found, _final(a, b, tolerances), once("heldout_loss", a.heldout_loss, b.heldout_loss, tolerances)]


def _same_batches(a: Measured, b: Measured) -> bool:
    alike = (a.identity.seed, a.identity.data, a.tokens_per_step) == (b.identity.seed, b.identity.data, b.tokens_per_step)
    return alike and not drawn_otherwise(a.identity, b.identity)


def drawn_otherwise(a: Identity, b: Identity) -> list[str]:
    """In what the batches of ``a`` and ``b`` are drawn differently from their data, in words. What a baseline does not say, since it is of
    before that was kept, is taken to be as in the other."""
    other = [name for name in a.drawn if a.drawn[name] != b.drawn.get(name, a.drawn[name])]
    return [f"dataset {name} {a.drawn[name]} in A, {b.drawn[name]} in B" for name in other]


def _pointwise(left: Any, right: Any, common: Sequence[int], tolerances: Tolerances) -> list[Metric]:
    """Seed for seed the curves must be the same ones: a difference either way is unexplained, and counts as worse. A loss that is no
    number on both sides is no difference; the others are judged."""
    finite = np.isfinite(left) & np.isfinite(right)
    torn = np.isfinite(left) != np.isfinite(right)
    off = np.full(len(left), 0.0)
    off[finite] = np.abs(right - left)[finite] / np.maximum(np.abs(left[finite]), 1e-12)
    off[torn] = math.inf
    largest = float(off.max())
    correlation = 0.0 if torn.any() else _correlation(left[finite], right[finite])
    same = largest <= tolerances["loss_pointwise"]
    at = int(np.argmax(off > tolerances["loss_pointwise"]))
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


def _final(a: Measured, b: Measured, tolerances: Tolerances) -> Metric:
    """The mean of the last losses, with the interval that the noise of their batches leaves: drawn step for step where both saw the
    same batches, each for itself otherwise."""
    ends = [{step: run.losses[step] for step in sorted(run.losses)[-LAST:]} for run in (a, b)]
    paired = _same_batches(a, b) and list(ends[0]) == list(ends[1])
    if paired:
        both_broken = {step for step in ends[0] if not any(math.isfinite(end[step]) for end in ends)}
        ends = [{step: loss for step, loss in end.items() if step not in both_broken} for end in ends]
    left, right = (np.array(list(end.values())) for end in ends)
    if min(len(left), len(right)) < 2 or not (np.isfinite(left).all() and np.isfinite(right).all()) or min(left.mean(), right.mean()) <= 0:
        return once("final_loss", a.final_loss, b.final_loss, tolerances)
    found = bootstrap.difference(left[:, None].tolist(), right[:, None].tolist(), bootstrap.mean, paired=paired)
    return _with_interval(
        "final_loss", float(left.mean()), float(right.mean()), found, tolerances, more_is_better=False, noisy="", more=LAST_LOSSES
    )


def speeds(a: Measured, b: Measured, tolerances: Tolerances, *, paired: bool) -> list[Metric]:
    """Throughput, and the times of a step: where steps are of different numbers of tokens, B's are told for as many as A's has."""
    on_cpu = a.identity.hardware.get("device") == b.identity.hardware.get("device") == "cpu"
    short = [side for side, run in (("A", a), ("B", b)) if not run.blocks]
    if short:
        note = f"too few timed steps in {' and '.join(short)}: at least {2 * BLOCK} after the warm-up are needed"
        names = ("throughput", "step_p95", "cpu_time") if on_cpu else ("throughput", "step_p95")
        return [_untold(name, a.tokens_per_s if name == "throughput" else None, b.tokens_per_s if name == "throughput" else None,
                        tolerances, note) for name in names]  # fmt: skip
    noisy, more = ("", f"more --pairs, or {ROUNDS}") if paired else (_noise(a, b), "more steps, or in turns with `mindrecipe bench`")
    alike = a.tokens_per_step / b.tokens_per_step if a.tokens_per_step and b.tokens_per_step else 1.0
    took = bootstrap.difference(a.blocks, b.blocks, bootstrap.median, paired=paired)
    faster = Difference(*(1 / (alike * (1 + part)) - 1 for part in (took.value, took.high, took.low)))
    late = _scaled(bootstrap.difference(a.blocks, b.blocks, bootstrap.p95, paired=paired), alike)
    times = [float(bootstrap.p95(np.array(run.step_times))) for run in (a, b)]
    found = [
        _with_interval("throughput", a.tokens_per_s, b.tokens_per_s, faster, tolerances, more_is_better=True, noisy=noisy, more=more),
        _with_interval("step_p95", times[0], alike * times[1], late, tolerances, more_is_better=False, noisy=noisy, more=more),
    ]
    known = [any(run.cpu_blocks) for run in (a, b)]
    if on_cpu and all(known):
        used = _scaled(bootstrap.difference(a.cpu_blocks, b.cpu_blocks, bootstrap.undisturbed, paired=paired), alike)
        left, right = (float(bootstrap.undisturbed(np.ravel(run.cpu_blocks))) for run in (a, b))
        found.append(_with_interval("cpu_time", left, alike * right, used, tolerances, more_is_better=False, noisy="", more=more))
    elif on_cpu and any(known):
        found.append(_untold("cpu_time", None, None, tolerances, f"not measured in {'A' if known[1] else 'B'}"))
    return found


def _scaled(found: Difference, factor: float) -> Difference:
    return Difference(*(factor * (1 + part) - 1 for part in (found.value, found.low, found.high)))


def _noise(a: Measured, b: Measured) -> str:
    if a.identity.hardware.get("device") != "cpu":
        return ""
    shares = [run.others for run in (a, b)]
    if None in shares:
        return "what other processes used is not known (too short, or monitor.usage_interval=null): in turns with `mindrecipe bench`"
    most = max(share for share in shares if share is not None)
    if most <= NOISY:
        return ""
    return f"other processes used {100 * most:.0f} % of the cores: measure again, or in turns with `mindrecipe bench`"


def evaluations(a: Measured, b: Measured, tolerances: Tolerances) -> list[Metric]:
    """Where both were evaluated, on the same tokens and with the same batch. Weights of other steps have other losses: they are
    compared where they are of the same step, or the last of either run."""
    left, right = a.evaluation, b.evaluation
    if not left or not right or any(left[key] != right[key] for key in ("data", "tokens", "batch_size")):
        return []
    timed = [
        once("evaluation_latency", left["latency"]["p50"], right["latency"]["p50"], tolerances),
        once("evaluation_throughput", left["tokens_per_s"], right["tokens_per_s"], tolerances),
    ]
    most = max(left["others"], right["others"])
    if most > NOISY and a.identity.hardware.get("device") == "cpu":
        note = f"other processes used {100 * most:.0f} % of the cores: evaluate again"
        timed = [replace(metric, verdict="unclear", note=note) for metric in timed]
    loss = once("evaluation_loss", left["loss"], right["loss"], tolerances)
    steps = [run.evaluation.get("step") for run in (a, b)]
    lasts = [max(run.losses, default=None) for run in (a, b)]
    if steps[0] != steps[1] and steps != lasts:
        told = f"of step {steps[0]} of {lasts[0]} in A, {steps[1]} of {lasts[1]} in B: `mindrecipe evaluate` both alike"
        loss = replace(loss, verdict="unclear", note=told)
    return [loss, *timed, once("evaluation_memory", left["memory_bytes"], right["memory_bytes"], tolerances)]


def once(name: str, a: float | None, b: float | None, tolerances: Tolerances) -> Metric:
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


def unmeasured(name: str, tolerances: Tolerances) -> Metric:
    """Of a metric that was asked for, and that neither side has."""
    return _untold(name, None, None, tolerances, "nothing of it was measured that both sides could be compared by")


def _untold(name: str, a: float | None, b: float | None, tolerances: Tolerances, note: str) -> Metric:
    return Metric(name=name, a=a, b=b, difference=None, tolerance=tolerances[name], verdict="unclear", note=note)


def _with_interval(
    name: str,
    a: float | None,
    b: float | None,
    found: Difference,
    tolerances: Tolerances,
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
