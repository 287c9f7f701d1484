"""Communication in an Ascend profile: how much of a step it takes, and what went over which link. A CPU profile has neither.

``step_trace_time.csv`` has microseconds a step (mindspore profiler/analysis/viewer/ascend_step_trace_time_viewer.py);
``communication_matrix.json`` is step -> p2p or collective -> "allreduce-total@group" -> "source-target" -> figures
(ascend_communication_viewer.py), written from `profile.level=1` on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.judge.profile.files import DEVICE, number, rows

EXPOSED = "Communication(Not Overlapped)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Seconds over all profiled steps: computing, communication that computing does not hide, and neither."""

    computing: float
    exposed: float
    free: float

    @property
    def exposed_share(self) -> float:
        """Of the whole; 0 of an empty file."""
        whole = self.computing + self.exposed + self.free
        return self.exposed / whole if whole else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What went from one rank to another, over all profiled steps and operators; ``transport`` as the device names it (HCCS, RDMA)."""

    source: str
    target: str
    transport: str
    megabytes: float
    milliseconds: float

    @property
    def gigabytes_per_s(self) -> float | None:
        """MB over ms are GB/s; None where no time was recorded."""
        return self.megabytes / self.milliseconds if self.milliseconds else None


def shares(folder: Path) -> Shares | None:
    """Of all steps together; None where the profile has no such file."""
    found = [*rows(folder / DEVICE / "step_trace_time.csv")]
    if not found:
        return None
    computing, exposed, free = (sum(number(row.get(name)) or 0.0 for row in found) / 1e6 for name in ("Computing", EXPOSED, "Free"))
    return Shares(computing=computing, exposed=exposed, free=free)


def links(folder: Path) -> list[Link]:
    """The matrix, by source and target; a link that is no pair of ranks is left out."""
    path = folder / DEVICE / "communication_matrix.json"
    if not path.is_file():
        return []
    found: dict[tuple[str, str], Link] = {}
    for name, figures in _totals(json.loads(path.read_text(encoding="utf-8"))):
        source, dash, target = name.partition("-")
        if not dash:
            continue
        known = found.get((source, target))
        found[source, target] = Link(
            source=source,
            target=target,
            transport=str(figures.get("Transport Type") or (known.transport if known else "")),
            megabytes=float(figures.get("Transit Size(MB)") or 0.0) + (known.megabytes if known else 0.0),
            milliseconds=float(figures.get("Transit Time(ms)") or 0.0) + (known.milliseconds if known else 0.0),
        )
    return [found[pair] for pair in sorted(found, key=lambda pair: (len(pair[0]), pair[0], len(pair[1]), pair[1]))]


def _totals(steps: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries "-total@": the others pick single operators out of it."""
    for kinds in steps.values():
        for operators in kinds.values():
            for operator, each in operators.items():
                if operator.partition("@")[0].endswith("-total"):
                    yield from each.items()
