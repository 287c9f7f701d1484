"""What a simulated rank sends and receives in one step, from the files that MindSpore's dry run leaves."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: below the working folder of a rank
ORDER = Path("execute_order")
COMMUNICATION, ALL_OPERATORS = "comm_execute_order.csv", "execute_order.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """``count`` operators of one step, alike: ``operator`` over ``ranks``, each with ``bytes`` of the larger of input and output.

    Of Send and Receive ``ranks`` are this rank and its peer.
    """

    operator: str
    ranks: tuple[int, ...]
    dtype: str
    shape: str
    bytes: int
    count: int

    @property
    def total(self) -> int:
        """Bytes of all of them."""
        return self.bytes * self.count


def read(folder: Path) -> tuple[Collective, ...]:
    """The collectives of a step, the largest share first; ``folder`` holds MindSpore's comm_execute_order.csv.

    A rank that communicates with nobody leaves no such file.
    """
    path = folder / COMMUNICATION
    if not path.exists():
        return ()
    with path.open(encoding="utf-8", newline="") as lines:
        return gathered(csv.DictReader(lines))


def gathered(rows: Iterable[dict[str, str]]) -> tuple[Collective, ...]:
    """Rows of comm_execute_order.csv, those that are alike counted."""
    alike: Counter[tuple[str, tuple[int, ...], str, str, int]] = Counter()
    for row in rows:
        larger = max(("input", "output"), key=lambda side: _bytes(row, side))
        if row["primitive"] in ("Receive", "Send"):  # the other side is a token
            larger = "output" if row["primitive"] == "Receive" else "input"
        ranks = tuple(int(rank) for rank in row["comm_rank"].split())
        alike[row["primitive"], ranks, row[f"{larger}_type"], row[f"{larger}_shape"], _bytes(row, larger)] += 1
    found = [
        Collective(operator=operator, ranks=ranks, dtype=dtype, shape=shape, bytes=size, count=count)
        for (operator, ranks, dtype, shape, size), count in alike.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.total))


def operators(folder: Path) -> int:
    """Operators of a step, all kinds; 0 where MindSpore left no list."""
    path = folder / ALL_OPERATORS
    if not path.exists():
        return 0
    with path.open("rb") as lines:
        return max(0, sum(1 for _ in lines) - 1)


def _bytes(row: dict[str, str], side: str) -> int:
    """Sizes of an operator with several tensors are listed one after the other."""
    return sum(int(size) for size in row[f"{side}_size"].replace(",", " ").split() if size.isdigit())
