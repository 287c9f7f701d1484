"""Two runs compared, metric by metric, against thresholds that were declared beforehand: same, better, worse, or not comparable.

A metric has changed when its difference is beyond the tolerance and its confidence interval excludes zero. Where the interval is
wider than the tolerance nothing can be said: that metric is "unclear", which is never taken for "same". On CPU a run is one process,
whose own speed no interval over its steps can see: between two such runs only a large difference of speed is one (verdicts.py, ALONE).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mindrecipe.judge import figures
from mindrecipe.judge.measured import Identity, Measured
from mindrecipe.judge.verdicts import ALONE, ROUNDS, Metric, alone, overall

EXIT_CODES = {"same": 0, "worse": 1, "better": 3, "not comparable": 4}
DESPITE = ("hardware", "data")
IN_ROUNDS = f"`mindrecipe bench A B {ROUNDS}`"
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
    """``b`` against ``a``; ``despite`` names what may differ all the same, ``only`` the metrics that count (none: all; whether a side
    completed always counts); ``paired``: their blocks were measured in turns."""
    why_not = differences(a.identity, b.identity, despite)
    notes = _notes(a, b, why_not)
    if why_not:
        return Comparison(a=a.identity, b=b.identity, metrics=[], verdict="not comparable", why_not=why_not, notes=notes)
    ended = figures.completion(a, b)
    speeds = figures.speeds(a, b, tolerances, paired=paired)
    if not paired and a.blocks and b.blocks and a.identity.hardware.get("device") == "cpu":
        speeds = [alone(metric, IN_ROUNDS) for metric in speeds]
        notes.append(ONE_EACH)
    metrics = [*figures.losses(a, b, tolerances), *speeds]
    metrics.append(figures.once("memory", a.peak_memory_bytes, b.peak_memory_bytes, tolerances))
    metrics += figures.evaluations(a, b, tolerances)
    known = [metric for metric in metrics if metric.a is not None or metric.b is not None or metric.verdict == "unclear"]
    known = [metric for metric in known if not only or metric.name in only]
    known += [figures.unmeasured(name, tolerances) for name in only if name not in [metric.name for metric in known]]
    verdict = overall([metric.verdict for metric in [*ended, *known]])
    if any(metric.verdict == "unclear" for metric in ended):
        verdict = "not comparable"  # whatever the figures of what did not complete
    unclear = [f"{metric.name}: {metric.note}" for metric in [*ended, *known] if metric.verdict == "unclear"]
    return Comparison(
        a=a.identity,
        b=b.identity,
        metrics=[*ended, *known],
        verdict=verdict,
        why_not=unclear if verdict == "not comparable" else [],
        notes=notes,
    )


def differences(a: Identity, b: Identity, despite: Sequence[str] = ()) -> list[str]:
    """What forbids a comparison, in words."""
    found = []
    if "hardware" not in despite:
        keys = [key for key in {**a.hardware, **b.hardware} if a.hardware.get(key) != b.hardware.get(key)]
        found += [f"hardware differs: {key} is {a.hardware.get(key)} in A and {b.hardware.get(key)} in B" for key in keys]
    if "data" not in despite and a.data != b.data:
        found.append(f"the data sets differ: {(a.data or 'unknown')[:12]} in A and {(b.data or 'unknown')[:12]} in B")
    return found


def _notes(a: Measured, b: Measured, refused: Sequence[str]) -> list[str]:
    """What else differs: also what forbids a comparison, where it was made in spite of that."""
    left, right = a.identity.versions, b.identity.versions
    notes = [told for told in differences(a.identity, b.identity) if told not in refused]
    if a.identity.data is None and b.identity.data is None:
        notes.append("neither says what data it was trained on (it has no fingerprint): whether it is the same is not known")
    notes += [f"{name}: {left.get(name)} in A, {right.get(name)} in B" for name in {**left, **right} if left.get(name) != right.get(name)]
    if a.identity.config_hash != b.identity.config_hash:
        notes.append("the configurations differ (`mindrecipe diff A B` says in what)")
    if a.identity.data == b.identity.data and (other := figures.drawn_otherwise(a.identity, b.identity)):
        notes.append(f"the batches differ, so that losses are not compared step by step: {'; '.join(other)}")
    if a.tokens_per_step != b.tokens_per_step:
        notes.append(
            f"a step has {a.tokens_per_step} tokens in A, {b.tokens_per_step} in B: step_p95 and cpu_time of B are told for as many as A's"
        )
    return notes
