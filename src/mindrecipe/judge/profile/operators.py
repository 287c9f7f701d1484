"""Executions of operators: read from the profiler's files, told apart by step, and added up by kind and by scope.

On CPU ``FRAMEWORK/cpu_op_execute_timestamp_<rank>.txt`` has a line an operator, ``name;device;start,took,thread ...`` (nanoseconds and
milliseconds, mindspore profiler/analysis/parser/timeline_event/cpu_op_event.py). On Ascend ``kernel_details.csv`` has a row a kernel
(microseconds, profiler/analysis/viewer/ascend_kernel_details_viewer.py).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mindrecipe.judge.profile.files import DEVICE, FRAMEWORK, number, rows

_NUMBERED = re.compile(r"-op\d+$")
#: scopes that every operator of a network has, and that say nothing
_WRAPPERS = ("network", "model", "Default")
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Execution:
    """One operator, run once. ``start`` and ``took`` in seconds; ``step`` as the profiler numbers it, None where it does not."""

    name: str
    kind: str
    start: float
    took: float
    step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """All executions of one kind: ``count`` and ``seconds`` of one step, ``share`` of the time of all kinds."""

    kind: str
    count: float
    seconds: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One profiled step: ``seconds`` from its first operator to the end of its last; ``idle`` the share of them in which none ran;
    ``gap`` seconds from there to the next step's first operator, None after the last.
    """

    seconds: float
    idle: float
    gap: float | None


def read(folder: Path) -> list[Execution]:
    """All executions by their start; none where the profile has no operators."""
    found = [*_kernels(folder / DEVICE / "kernel_details.csv")]
    if not found:
        found = [each for path in sorted(folder.glob(f"{FRAMEWORK}/cpu_op_execute_timestamp_*.txt")) for each in _host(path)]
    return sorted(found, key=lambda each: each.start)


def by_step(executions: Sequence[Execution], steps: int) -> list[list[Execution]]:
    """Executions of each step.

    Where the profiler does not number them, a step begins with the first operator that ran once in each of the ``steps`` profiled
    steps; without any such operator they are one stretch.
    """
    if executions and all(each.step for each in executions):
        numbered: dict[str, list[Execution]] = defaultdict(list)
        for each in executions:
            numbered[str(each.step)].append(each)
        return list(numbered.values())
    counts = Counter(each.name for each in executions)
    opening = next((each.name for each in executions if counts[each.name] == steps), None)
    starts = [place for place, each in enumerate(executions) if each.name == opening] or [0]
    return [list(executions[start:end]) for start, end in pairwise([*starts, len(executions)])] if executions else []


def steps_of(parts: Sequence[Sequence[Execution]]) -> list[Step]:
    """What each step took, and what of it no operator did."""
    found = []
    for place, part in enumerate(parts):
        busy, end = _covered(part)
        span = end - part[0].start
        following = parts[place + 1][0].start - end if place + 1 < len(parts) else None
        found.append(Step(seconds=span, idle=1 - busy / span if span else 0.0, gap=following))
    return found


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A step as if nothing else ran on this machine: ``busy`` and ``idle`` seconds, and ``operator`` those of a mean operator."""

    busy: float
    idle: float
    operator: float

    @property
    def idle_share(self) -> float:
        """Of the step."""
        whole = self.busy + self.idle
        return self.idle / whole if whole else 0.0


def undisturbed(parts: Sequence[Sequence[Execution]]) -> Undisturbed:
    """The least that each operator, and each gap between two, took in any of the steps: others only ever make them longer.

    Steps of the same operators are put together; where they differ, the shortest is taken as it is.
    """
    if len({len(part) for part in parts}) > 1:
        parts = [min(parts, key=lambda part: part[-1].start - part[0].start)]
    laps = [list(_laps(part)) for part in parts]
    least = [tuple(map(min, *same)) if len(same) > 1 else (same[0][0], same[0][1]) for same in zip(*laps, strict=True)]
    took = [min(each.took for each in same) for same in zip(*parts, strict=True)]
    return Undisturbed(busy=sum(busy for _, busy in least), idle=sum(gap for gap, _ in least), operator=sum(took) / max(1, len(took)))


def by_kind(executions: Iterable[Execution], steps: int) -> list[Operator]:
    """Kinds of operators, the most costly first."""
    took: dict[str, float] = defaultdict(float)
    count: Counter[str] = Counter()
    for each in executions:
        took[each.kind] += each.took
        count[each.kind] += 1
    whole = sum(took.values())
    found = [
        Operator(kind=kind, count=count[kind] / steps, seconds=seconds / steps, share=seconds / whole if whole else 0.0)
        for kind, seconds in took.items()
    ]
    return sorted(found, key=lambda operator: -operator.seconds)


def by_scope(executions: Iterable[Execution]) -> dict[str, float]:
    """Share of all operators' time by where in the network they stand, the largest first."""
    took: dict[str, float] = defaultdict(float)
    for each in executions:
        took[scope(each.name)] += each.took
    whole = sum(took.values())
    return {name: seconds / whole for name, seconds in sorted(took.items(), key=lambda item: -item[1])} if whole else {}


def scope(name: str) -> str:
    """``layers/attention`` of Default/network-X/.../layers-CellList/3-Layer/attention-Y/MatMul-op1: cells by the names they have in
    their parents, layers put together, at most two deep; "backward: " of gradients.
    """
    parts = name.split("/")
    end = next((place for place, part in enumerate(parts) if _NUMBERED.search(part) or part.startswith("Grad_")), len(parts) - 1)
    cells, backward = parts[:end], parts[0] == "Gradients"
    if cells and cells[0] == "Expand":  # what an operator was replaced by keeps no place in the network
        return "expanded operators"
    names = [cell.partition("-")[0] for cell in cells[1 if backward else 0 :]]
    told = [cell for cell in names if not cell.isdigit() and not cell.startswith("_") and cell not in _WRAPPERS][:_DEPTH]
    return ("backward: " if backward else "") + ("/".join(told) or "outside of cells")


def _covered(part: Sequence[Execution]) -> tuple[float, float]:
    """Seconds in which at least one operator ran, and when the last one ended (operators of several streams overlap)."""
    return sum(busy for _, busy in _laps(part)), max(each.start + each.took for each in part)


def _laps(part: Sequence[Execution]) -> Iterator[tuple[float, float]]:
    """Of each operator the seconds before it in which none ran, and those in which it was the only one so far."""
    end = part[0].start
    for each in part:
        over = max(end, each.start + each.took)
        yield max(0.0, each.start - end), over - min(over, max(each.start, end))
        end = over


def _host(path: Path) -> Iterator[Execution]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            name, _, times = (part.strip() for part in (*line.split(";", 2), "", "")[:3])
            kind = _NUMBERED.sub("", name.rpartition("/")[2])
            for each in times.rpartition(";")[2].split():
                start, took, _ = each.split(",")
                yield Execution(name, kind, int(start) / 1e9, float(took) / 1e3)


def _kernels(path: Path) -> Iterator[Execution]:
    for row in rows(path):
        start, took = number(row["Start Time(us)"]), number(row["Duration(us)"])
        if start is not None and took is not None:
            yield Execution(row["Name"], row.get("Type") or row["Name"], start / 1e6, took / 1e6, row.get("Step ID") or None)
