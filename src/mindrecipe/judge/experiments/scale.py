"""Scaling: the same work over more ranks (strong), and as much work a rank over more ranks (weak), against the ideal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.errors import UserError
from mindrecipe.judge.experiments.cells import Cell, measure_cell
from mindrecipe.judge.training import with_words
from mindrecipe.measure.view import text


@dataclass(frozen=True, slots=True)
class Point:
    """``kind`` strong or weak, over ``workers`` ranks; ``speedup`` of tokens/s over one rank, ``efficiency`` is that over the ideal."""

    kind: str
    workers: int
    batch: int
    cell: Cell
    speedup: float | None
    efficiency: float | None


def measure(
    words: Sequence[str],
    folder: Path,
    *,
    workers: Sequence[int],
    batch: int,
    warm_up: int,
    steps: int,
    told: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Measure data parallelism over each of ``workers``, from ``batch`` sequences of one rank: divided among them, and as many for each."""
    counts = sorted(set(workers))
    if counts[0] != 1:
        counts = [1, *counts]
    uneven = [count for count in counts if batch % count]
    if uneven:
        raise UserError(
            f"a batch of {batch} does not divide among {uneven[0]} ranks",
            mend=f"--batch {math.lcm(*counts) * max(1, batch // math.lcm(*counts))}",
        )
    points: list[Point] = []
    for kind in ("strong", "weak"):
        one: float | None = None
        for count in counts:
            own = batch // count if kind == "strong" else batch
            ranks = [] if count == 1 else ["parallel=data", f"launch.workers={count}"]
            cell = measure_cell(with_words(words, f"dataset.batch_size={own}", *ranks), folder / "cells", warm_up=warm_up, steps=steps)
            one = cell.tokens_per_s if count == 1 else one
            speedup = cell.tokens_per_s / one if cell.tokens_per_s and one else None
            points.append(Point(kind, count, own, cell, speedup, None if speedup is None else speedup / count))
            told(f"{kind}, {count} ranks: {cell.fault or text.quantity(cell.tokens_per_s or 0)}{'' if cell.fault else ' tokens/s'}")
    return points


def table(points: Sequence[Point]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows."""
    columns = ["scaling", "ranks", "batch a rank", "tokens/s", "p50", "p95", "speed-up", "ideal", "efficiency", "fault"]
    rows = []
    for point in points:
        speed, half, late = point.cell.tokens_per_s, point.cell.percentile(0.5), point.cell.percentile(0.95)
        rows.append(
            [
                point.kind,
                str(point.workers),
                str(point.batch),
                "" if speed is None else text.quantity(speed),
                "" if half is None else text.seconds(half),
                "" if late is None else text.seconds(late),
                "" if point.speedup is None else f"{point.speedup:.2f}",
                str(point.workers),
                "" if point.efficiency is None else f"{100 * point.efficiency:.0f} %",
                point.cell.fault or "",
            ]
        )
    return columns, rows
