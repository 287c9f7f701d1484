"""The ladder: a clean baseline, then one change at a time, each measured in turns with the best so far, and kept when it helps.

A rung is several rounds, each of new processes (rounds.py): between two processes alone no usual change of speed could be told.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.errors import UserError
from mindrecipe.judge import bench
from mindrecipe.judge.compare import DESPITE, Comparison, compare
from mindrecipe.judge.experiments.cells import FEW, reason, values_of
from mindrecipe.judge.measured import Measured
from mindrecipe.judge.rounds import joined, together
from mindrecipe.judge.tables import figure, percent
from mindrecipe.judge.training import with_words
from mindrecipe.measure.curves import percentile

#: what a change is judged by: the curve of the loss may be another one, its end may not
JUDGED = ("final_loss", "throughput", "cpu_time", "memory")
COLUMNS = ("config", "tokens/s", "difference", "p50", "p95", "memory", "loss", "loss difference", "verdict", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A change: ``comparison`` and ``measured`` against the best before it; null where its training failed (``fault``)."""

    change: str
    measured: Measured | None
    comparison: Comparison | None
    kept: bool
    fault: str | None = None


def variables(vary: str) -> dict[str, list[str]]:
    """ "amp=O0,O2; recompute=none,attention" -> the values of each, the baseline's first. UserError for what is none."""
    found = {}
    for part in filter(None, (part.strip() for part in vary.split(";"))):
        values = values_of(part)
        if values is None:
            raise UserError(f"{part!r} varies nothing", mend=f"vary='{part.partition('=')[0]}=<the baseline's value>,<another>'")
        found[values[0]] = [value.strip() for value in values[1]]
    if not found:
        raise UserError("a ladder needs something to vary", mend='vary="amp=O0,O2; recompute=none,attention"')
    return found


def climb(
    words: Sequence[str],
    vary: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    tolerances: Mapping[str, float],
    rounds: int,
    pairs: int,
    steps: int,
    told: Callable[[str], None] = lambda _: None,
) -> tuple[Measured | None, list[Rung]]:
    """The baseline's figures, and a rung for each other value. Rounds that were measured before are not measured again."""
    best = baseline_of(words, vary)
    baseline: Measured | None = None
    rungs: list[Rung] = []
    for key, values in vary.items():
        for value in values[1:]:
            change = f"{key}={value}"
            told(f"{change} against the best so far")
            candidate = with_words(best, change)
            try:
                measured = bench.rounds(
                    best, candidate, folder / _name(best, candidate, pairs, steps), count=rounds, pairs=pairs, steps=steps, told=told
                )
            except UserError as fault:
                rungs.append(Rung(change=change, measured=None, comparison=None, kept=False, fault=reason(fault)))
                continue
            baseline = baseline or joined([each.a for each in measured])
            found = together(
                [compare(each.a, each.b, tolerances, despite=DESPITE, only=JUDGED, paired=True) for each in measured], tolerances
            )
            kept = helps(found)
            rungs.append(Rung(change=change, measured=joined([each.b for each in measured]), comparison=found, kept=kept))
            if kept:
                best = candidate
    return baseline, rungs


def baseline_of(words: Sequence[str], vary: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of the baseline's training."""
    return with_words(list(FEW), *words, *(f"{key}={values[0]}" for key, values in vary.items()))


def helps(found: Comparison) -> bool:
    """Something is better beyond noise, and nothing is worse."""
    verdicts = [metric.verdict for metric in found.metrics]
    return "better" in verdicts and "worse" not in verdicts


def table(baseline: Measured | None, rungs: Sequence[Rung]) -> list[list[str]]:
    """Rows under :data:`COLUMNS`, the baseline first."""
    rows = [["baseline", *_figures(baseline, None), "", "yes"]] if baseline is not None else []
    for rung in rungs:
        if rung.measured is None or rung.comparison is None:
            rows.append([rung.change, *[""] * 7, f"failed: {rung.fault}", "no"])
        else:
            rows.append([rung.change, *_figures(rung.measured, rung.comparison), _verdict(rung.comparison), "yes" if rung.kept else "no"])
    return rows


def _verdict(found: Comparison) -> str:
    told = [f"{metric.name} {metric.verdict}" for metric in found.metrics if metric.verdict != "same"]
    return ", ".join(told) or "same"


def _figures(measured: Measured, found: Comparison | None) -> list[str]:
    metrics = {metric.name: metric for metric in found.metrics} if found is not None else {}
    times = measured.step_times
    faster, loss = metrics.get("throughput"), metrics.get("final_loss")
    return [
        figure("throughput", measured.tokens_per_s),
        percent(None if faster is None else faster.difference),
        figure("step", statistics.median(times)),
        figure("step", percentile(times, 0.95)),
        figure("memory", measured.peak_memory_bytes),
        figure("final_loss", measured.final_loss),
        percent(None if loss is None else loss.difference),
    ]


def _name(best: Sequence[str], candidate: Sequence[str], pairs: int, steps: int) -> str:
    """Of a rung's folder; more rounds of the same are added to those it has."""
    return hashlib.sha256(json.dumps([best, candidate, pairs, steps]).encode()).hexdigest()[:10]
