"""Scaling: the same work over more ranks (strong), and as much work a rank over more ranks (weak), against the ideal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.judge.experiments.cells import Cell, measure_cell
from mindrecipe.judge.keeping import claimed
from mindrecipe.judge.tables import Column
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
    with claimed(folder):
        for kind in ("strong", "weak"):
            one: float | None = None
            for count in counts:
                own = batch // count if kind == "strong" else batch
                # one rank is said too: a recipe may be of several
                ranks = [f"parallel={'standalone' if count == 1 else 'data'}", f"launch.workers={count}"]
                training = with_words(words, f"dataset.batch_size={own}", *ranks)
                cell = measure_cell(training, folder / "cells", warm_up=warm_up, steps=steps, told=told)
                one = cell.tokens_per_s if count == 1 else one
                speedup = cell.tokens_per_s / one if cell.tokens_per_s and one else None
                points.append(Point(kind, count, own, cell, speedup, None if speedup is None else speedup / count))
                told(f"{kind}, {count} ranks: {cell.fault or text.quantity(cell.tokens_per_s or 0)}{'' if cell.fault else ' tokens/s'}")
    return points


def table(points: Sequence[Point]) -> tuple[list[Column], list[list[Any]]]:
    """Columns and rows."""
    columns = [
        Column("scaling", "scaling"),
        Column("ranks", "ranks"),
        Column("batch a rank", "batch_per_rank"),
        Column("tokens/s", "tokens_per_s", text.quantity),
        Column("p50", "p50_s", text.seconds),
        Column("p95", "p95_s", text.seconds),
        Column("speed-up", "speed_up", lambda value: f"{value:.2f}"),
        Column("ideal", "ideal"),
        Column("efficiency", "efficiency", lambda value: f"{100 * value:.0f} %"),
        Column("fault", "fault"),
    ]
    rows: list[list[Any]] = []
    for point in points:
        cell = point.cell
        figures = [cell.tokens_per_s, cell.percentile(0.5), cell.percentile(0.95)]
        rows.append([point.kind, point.workers, point.batch, *figures, point.speedup, point.workers, point.efficiency, cell.fault])
    return columns, rows
