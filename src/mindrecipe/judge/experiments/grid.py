"""The shape grid: every combination of a few values, what a step and a token cost there, and where the cost of a token jumps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.judge.experiments.cells import Cell, measure_cell, values_of
from mindrecipe.judge.keeping import claimed
from mindrecipe.judge.tables import Column
from mindrecipe.judge.training import key_of, with_words
from mindrecipe.measure.view import text

#: short names of the knobs that a grid is mostly of
SHORT = {"batch_size": "dataset.batch_size", "seq_length": "model.seq_length"}
DTYPES = {
    "float32": ("amp=O0",),
    "float16": ("amp=O1", "amp.dtype=float16"),
    "bfloat16": ("amp=O1", "amp.dtype=bfloat16"),
}
#: a token that costs so much more than with the value before is worth a look
JUMP = 1.25
Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """``axes``: name -> values; ``cells`` by the values of all axes, in their order."""

    axes: Mapping[str, Sequence[str]]
    cells: Mapping[Place, Cell]


@dataclass(frozen=True, slots=True)
class Transition:
    """Where the cost of a token (microseconds) jumps, up or down, from one value of ``axis`` to the next, the others being ``at``."""

    axis: str
    before: str
    after: str
    at: str
    cost_before: float
    cost_after: float

    def __str__(self) -> str:
        change, way = 100 * (self.cost_after / self.cost_before - 1), "rises" if self.cost_after > self.cost_before else "falls"
        where = f"{self.axis} {self.before} -> {self.after}{f' at {self.at}' if self.at else ''}"
        return f"{where}: it {way}, {self.cost_before:.1f} -> {self.cost_after:.1f} us a token ({change:+.0f} %)"


def axes_of(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Axes (words with several values), and the words that all cells share. UserError without an axis, and where a knob is given twice:
    one of the two would count for nothing."""
    axes: dict[str, list[str]] = {}
    shared: list[str] = []
    for word in words:
        found = values_of(word)
        if found is None:
            key, equals, value = word.partition("=")
            shared += _words_of(key, value) if equals and key in (*SHORT, "dtype") else [word]
        elif found[0] in axes:
            values = dict.fromkeys([*axes[found[0]], *found[1]])
            raise UserError(f"a grid has {found[0]} twice", where=word, mend=f"{found[0]}={','.join(values)}")
        else:
            axes[found[0]] = found[1]
    if not axes:
        raise UserError("a grid needs a knob with several values", mend="mindrecipe grid +recipe=tiny_cpu batch_size=1,2,4")
    _require_apart(axes, shared)
    return axes, shared


def _require_apart(axes: Mapping[str, Sequence[str]], shared: Sequence[str]) -> None:
    """UserError for an axis whose knobs another one, or a word for all cells, sets too."""
    set_by = {key: word for word in shared if (key := key_of(word)) is not None}
    for name, values in axes.items():
        own = {key for value in values for word in _words_of(name, value) if (key := key_of(word)) is not None}
        for key in sorted(own & set(set_by)):
            raise UserError(f"a grid has {key} twice: {set_by[key]}, and {name} is an axis", mend=f"leave out {set_by[key]}")
        set_by |= dict.fromkeys(own, f"{name}={','.join(values)}")


def measure(words: Sequence[str], folder: Path, *, warm_up: int, steps: int, told: Callable[[str], None] = lambda _: None) -> Grid:
    """Measure every cell that was not measured before."""
    axes, trainings = trainings_of(words)
    cells: dict[Place, Cell] = {}
    with claimed(folder):
        for number, (place, training) in enumerate(trainings.items(), 1):
            cells[place] = measure_cell(training, folder / "cells", warm_up=warm_up, steps=steps, told=told)
            cost = cells[place].cost
            what = cells[place].fault or (f"{cost:.1f} us a token" if cost else "")
            told(f"{number} of {len(trainings)}: {named(axes, place)}: {what}")
    return Grid(axes, cells)


def trainings_of(words: Sequence[str]) -> tuple[dict[str, list[str]], dict[Place, list[str]]]:
    """The axes, and the words of each cell's training. UserError for a grid that is none."""
    axes, shared = axes_of(words)
    found = {}
    for place in itertools.product(*axes.values()):
        more = [word for name, value in zip(axes, place, strict=True) for word in _words_of(name, value)]
        found[place] = with_words(shared, *more)
    return axes, found


def each_value(axes: Mapping[str, Sequence[str]], trainings: Mapping[Place, list[str]]) -> list[list[str]]:
    """So many of ``trainings`` that each value of each axis is in one of them."""
    first = next(iter(trainings))
    places = [(*first[:at], value, *first[at + 1 :]) for at, values in enumerate(axes.values()) for value in values]
    return [trainings[place] for place in dict.fromkeys(places)]


def transitions(grid: Grid) -> list[Transition]:
    """All jumps of the cost of a token between neighbours along an axis, the largest first."""
    found = []
    for number, (axis, values) in enumerate(grid.axes.items()):
        for place in grid.cells:
            here = values.index(place[number])
            if here == 0:
                continue
            before = (*place[:number], values[here - 1], *place[number + 1 :])
            costs = grid.cells[before].cost, grid.cells[place].cost
            if costs[0] is None or costs[1] is None or max(costs[1] / costs[0], costs[0] / costs[1]) < JUMP:
                continue
            others = {name: value for name, value in zip(grid.axes, place, strict=True) if name != axis}
            at = ", ".join(f"{name}={value}" for name, value in others.items())
            found.append(Transition(axis, values[here - 1], place[number], at, costs[0], costs[1]))
    return sorted(found, key=lambda jump: -abs(jump.cost_after / jump.cost_before - 1))


def table(grid: Grid) -> tuple[list[Column], list[list[Any]]]:
    """Columns and rows, one a cell."""
    quantiles = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    columns = [
        *(Column(name, name) for name in grid.axes),
        Column("tokens/s", "tokens_per_s", text.quantity),
        Column("us a token", "s_per_token", lambda cost: f"{1e6 * cost:.1f}"),
        *(Column(name, f"{name}_s", text.seconds) for name in quantiles),
        Column("memory", "memory_bytes", text.size),
        Column("fault", "fault"),
    ]
    rows: list[list[Any]] = []
    for place, cell in grid.cells.items():
        times = [cell.percentile(share) for share in quantiles.values()]
        rows.append([*place, cell.tokens_per_s, None if cell.cost is None else cell.cost / 1e6, *times, cell.memory_bytes, cell.fault])
    return columns, rows


def maps(grid: Grid) -> dict[str, dict[str, list[float | None]]]:
    """A heat map of the cost of a token for each combination of all axes but the last two: title -> row name -> values."""
    names = list(grid.axes)
    across, down = names[-1], names[-2] if len(names) > 1 else None
    found: dict[str, dict[str, list[float | None]]] = {}
    for rest in itertools.product(*(grid.axes[name] for name in names[:-2])):
        title = ", ".join([f"us a token by {across}", *(f"{name}={value}" for name, value in zip(names[:-2], rest, strict=True))])
        rows = {}
        for row in grid.axes[down] if down else ("",):
            places = [(*rest, *((row,) if down else ()), column) for column in grid.axes[across]]
            rows[f"{down}={row}" if down else across] = [grid.cells[place].cost for place in places]
        found[title] = rows
    return found


def named(axes: Mapping[str, Sequence[str]], place: Place) -> str:
    """ "batch_size=2 seq_length=128"."""
    return " ".join(f"{name}={value}" for name, value in zip(axes, place, strict=True))


def _words_of(name: str, value: str) -> list[str]:
    if name == "dtype":
        if value not in DTYPES:
            raise UserError(f"dtype={value} is none of {', '.join(DTYPES)}", mend="dtype=float32,float16")
        return list(DTYPES[value])
    return [f"{SHORT.get(name, name)}={value}"]
