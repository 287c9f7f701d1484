"""The ladder: a clean baseline, then one change at a time, each measured in turns with the best so far, and kept when it helps.

A rung is several rounds, each of new processes (rounds.py): between two processes alone no usual change of speed could be told.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.judge import bench
from mindrecipe.judge.compare import DESPITE, Comparison, compare
from mindrecipe.judge.experiments.cells import FEW, reason, values_of
from mindrecipe.judge.keeping import Busy, claimed
from mindrecipe.judge.measured import Measured
from mindrecipe.judge.rounds import joined, together
from mindrecipe.judge.tables import Column, figure, percent, yes_or_no
from mindrecipe.judge.training import with_words
from mindrecipe.measure.curves import percentile

#: what a change is judged by: the curve of the loss may be another one, its end may not
JUDGED = ("final_loss", "throughput", "memory")
COLUMNS = (
    Column("config", "config"),
    Column("tokens/s", "tokens_per_s", partial(figure, "throughput")),
    Column("difference", "throughput_difference", percent),
    Column("p50", "p50_s", partial(figure, "step")),
    Column("p95", "p95_s", partial(figure, "step")),
    Column("memory", "memory_bytes", partial(figure, "memory")),
    Column("loss", "loss", partial(figure, "final_loss")),
    Column("loss difference", "loss_difference", percent),
    Column("verdict", "verdict"),
    Column("kept", "kept", yes_or_no),
)


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
    found: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in vary.split(";"))):
        values = values_of(part)
        if values is None:
            raise UserError(f"{part!r} varies nothing", mend=f"vary='{part.partition('=')[0]}=<the baseline's value>,<another>'")
        if values[0] in found:
            raise UserError(f"vary names {values[0]} twice", mend=f"vary='{values[0]}={','.join([*found[values[0]], *values[1][1:]])}'")
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
    changes = [(key, value) for key, values in vary.items() for value in values[1:]]
    with claimed(folder):
        for key, value in changes:
            change = f"{key}={value}"
            told(f"{change} against the best so far")
            candidate = with_words(best, change)
            try:
                measured = bench.rounds(
                    best, candidate, folder / _name(best, candidate, pairs, steps), count=rounds, pairs=pairs, steps=steps, told=told
                )
            except Busy:  # no fault of the change: all else would be measured beside another training
                raise
            except UserError as fault:
                rungs.append(Rung(change=change, measured=None, comparison=None, kept=False, fault=reason(fault)))
                continue
            baseline = baseline or joined([each.a for each in measured])
            on_cpu = measured[0].a.identity.hardware.get("device") == "cpu"
            only = (*JUDGED, "cpu_time") if on_cpu else JUDGED  # elsewhere nobody has that
            found = together(
                [compare(each.a, each.b, tolerances, despite=DESPITE, only=only, paired=True) for each in measured], tolerances
            )
            kept = helps(found, rounds)
            rungs.append(Rung(change=change, measured=joined([each.b for each in measured]), comparison=found, kept=kept))
            if kept:
                best = candidate
    return baseline, rungs


def baseline_of(words: Sequence[str], vary: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of the baseline's training."""
    return with_words(list(FEW), *words, *(f"{key}={values[0]}" for key, values in vary.items()))


def helps(found: Comparison, rounds: int) -> bool:
    """Something is better beyond noise, and nothing is worse. A loss that ends lower in one round alone is no help yet."""
    verdicts = {metric.name: metric.verdict for metric in found.metrics}
    better = [name for name, verdict in verdicts.items() if verdict == "better" and (name != "final_loss" or rounds > 1)]
    return bool(better) and "worse" not in verdicts.values()


def table(baseline: Measured | None, rungs: Sequence[Rung]) -> list[list[Any]]:
    """Rows under :data:`COLUMNS`, the baseline first."""
    rows: list[list[Any]] = [["baseline", *_figures(baseline, None), None, True]] if baseline is not None else []
    for rung in rungs:
        if rung.measured is None or rung.comparison is None:
            rows.append([rung.change, *[None] * 7, f"failed: {rung.fault}", False])
        else:
            rows.append([rung.change, *_figures(rung.measured, rung.comparison), _verdict(rung.comparison), rung.kept])
    return rows


def _verdict(found: Comparison) -> str:
    told = [f"{metric.name} {metric.verdict}" for metric in found.metrics if metric.verdict != "same"]
    return ", ".join(told) or "same"


def _figures(measured: Measured, found: Comparison | None) -> list[float | None]:
    metrics = {metric.name: metric for metric in found.metrics} if found is not None else {}
    times = measured.step_times
    faster, loss = metrics.get("throughput"), metrics.get("final_loss")
    return [
        measured.tokens_per_s,
        None if faster is None else faster.difference,
        statistics.median(times),
        percentile(times, 0.95),
        measured.peak_memory_bytes,
        measured.final_loss,
        None if loss is None else loss.difference,
    ]


def _name(best: Sequence[str], candidate: Sequence[str], pairs: int, steps: int) -> str:
    """Of a rung's folder; more rounds of the same are added to those it has."""
    return hashlib.sha256(json.dumps([best, candidate, pairs, steps]).encode()).hexdigest()[:10]
