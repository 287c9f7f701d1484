"""Memory while the profiler watched: the curve, what the pool holds beyond it, and what lived longest (`profile.memory=true`).

On CPU ``FRAMEWORK/cpu_ms_memory_record_<rank>.txt`` (nanoseconds, bytes; nothing is reserved there). On Ascend ``memory_record.csv`` and
``operator_memory.csv`` (mindspore profiler/analysis/viewer/ascend_memory_viewer.py, ascend_op_memory_viewer.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.judge.profile.files import DEVICE, FRAMEWORK, number, rows

#: bytes of one "MB" in memory_record.csv: the viewer divides bytes by 1024 and then by 1000
_RECORD_MB = 1024 * 1000
_POINTS, _LARGEST = 400, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """One allocation: ``seconds`` until it was freed, None where it still was held when the profile ended."""

    name: str
    size: int
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """``curve``: (seconds, bytes allocated), the peak of each stretch; peaks in bytes, ``reserved`` of the pool, None where there is none.

    ``largest``: the largest allocations, where the device recorded them.
    """

    curve: list[tuple[float, float]]
    allocated: int
    reserved: int | None
    largest: list[Lifetime]

    @property
    def fragmentation(self) -> float | None:
        """Share of the pool at its largest that was never in use at once; None without a pool."""
        return 1 - self.allocated / self.reserved if self.reserved else None


def read(folder: Path) -> Memory | None:
    """The memory of a profile; None where it was not recorded."""
    records = [*_device(folder / DEVICE / "memory_record.csv")]
    if not records:
        records = [each for path in sorted(folder.glob(f"{FRAMEWORK}/cpu_ms_memory_record_*.txt")) for each in _host(path)]
    if not records:
        return None
    reserved = max(held for _, _, held in records)
    largest = heapq.nlargest(_LARGEST, _lifetimes(folder / DEVICE / "operator_memory.csv"), key=lambda each: each.size)
    return Memory(
        curve=_curve([(time, used) for time, used, _ in records]),
        allocated=round(max(used for _, used, _ in records)),
        reserved=round(reserved) or None,
        largest=largest,
    )


def _curve(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most 400 points: a mean would cut the peaks off, which are what one looks for."""
    first, stride = points[0][0], -(-len(points) // _POINTS)
    return [
        max(((time - first, used) for time, used in points[at : at + stride]), key=lambda point: point[1])
        for at in range(0, len(points), stride)
    ]


def _host(path: Path) -> Iterator[tuple[float, float, float]]:
    for row in rows(path):
        yield int(row["Timestamp(ns)"]) / 1e9, float(row["Total Allocated(Byte)"]), float(row["Total Reserved(Byte)"])


def _device(path: Path) -> Iterator[tuple[float, float, float]]:
    """MindSpore's own rows: "MindSpore+GE" counts them again, "APP" is the whole process."""
    for row in rows(path):
        if row["Component"] == "MindSpore":
            used, held = (float(row[f"Total {name}(MB)"]) * _RECORD_MB for name in ("Allocated", "Reserved"))
            yield float(row["Timestamp(us)"]) / 1e6, used, held


def _lifetimes(path: Path) -> Iterator[Lifetime]:
    for row in rows(path):
        held = number(row["Duration(us)"])
        yield Lifetime(name=row["Name"], size=round(1024 * float(row["Size(KB)"])), seconds=None if held is None else held / 1e6)
