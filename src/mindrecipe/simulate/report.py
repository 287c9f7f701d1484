"""What is known of a simulated rank, and of the job: read from what the ranks left, kept as simulation.json."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mindrecipe.data.shared import put_text, shared_folder, usable
from mindrecipe.measure import holdings
from mindrecipe.measure.holdings import Holdings
from mindrecipe.simulate import collectives
from mindrecipe.simulate.collectives import Collective

SCHEMA_VERSION = 1
MIB = 1 << 20
_WITH_FRAGMENTS = re.compile(r"Actual peak memory usage \(with fragments\): (\d+)M")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """One rank of a simulated job.

    ``peak_with_fragments`` is MindSpore's own, in whole MiB (without fragments: in ``holdings``); workspace of operators and HCCL's buffers
    are in neither. ``host_seconds`` and ``host_bytes`` are what simulating it cost here. ``reused``: taken from an earlier simulation.
    """

    rank: int
    stage: int
    holdings: Holdings
    peak_with_fragments: int
    collectives: tuple[Collective, ...]
    operators: int
    host_seconds: float
    host_bytes: int
    reused: bool = False

    @property
    def peak(self) -> int:
        """MindSpore's peak in bytes, fragments included. That figure is whole MiB rounded down: below the exact one it is not believed."""
        return max(self.peak_with_fragments, self.holdings.peak_bytes)

    def fits(self, limit: int | None) -> bool | None:
        """Whether the peak, fragments included, is within ``limit`` bytes; None where there is no limit."""
        return None if limit is None else self.peak <= limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All simulated ranks of a job. ``limit`` is memory.max_device_memory in bytes."""

    title: str
    device: str
    device_num: int
    stages: int
    limit: int | None
    ranks: tuple[RankReport, ...]

    @property
    def fits(self) -> bool | None:
        """Whether every simulated rank fits; None where there is no limit."""
        verdicts = [rank.fits(self.limit) for rank in self.ranks]
        return None if self.limit is None else all(verdicts)


def take(rank: int, stage: int, run_dir: Path, *, seconds: float, host_bytes: int) -> RankReport:
    """The report of a rank that has just ended well. FileNotFoundError or ValueError where it left less than it should."""
    said = _WITH_FRAGMENTS.search((run_dir / "logs" / f"rank_{rank}.log").read_text(encoding="utf-8", errors="replace"))
    if said is None:
        raise ValueError(f"rank {rank} ended without MindSpore's line on its peak memory")
    scratch = run_dir / "scratch" / f"rank_{rank}"
    several = scratch / f"rank_{rank}"  # which MindSpore makes where there are several ranks
    order = (several if several.exists() else scratch) / collectives.ORDER
    return RankReport(
        rank=rank,
        stage=stage,
        holdings=holdings.read(run_dir / "simulation" / f"rank_{rank}.holdings.json"),
        peak_with_fragments=int(said[1]) * MIB,
        collectives=collectives.read(order),
        operators=collectives.operators(order),
        host_seconds=seconds,
        host_bytes=host_bytes,
    )


def save(report: RankReport, cache: Path, path: Path) -> None:
    """Write a rank's report to its place in the cache: whole or not at all."""
    with usable(cache):
        shared_folder(cache, *path.parent.relative_to(cache).parts)
        put_text(cache, path, json.dumps(asdict(report)) + "\n")


def load(path: Path) -> RankReport | None:
    """A rank's report of an earlier simulation; None where there is none."""
    if not path.exists():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    found = tuple(Collective(**(each | {"ranks": tuple(each["ranks"])})) for each in raw["collectives"])
    report = RankReport(**(raw | {"holdings": holdings.from_plain(raw["holdings"]), "collectives": found}))
    return replace(report, reused=True)


def as_plain(report: Report) -> dict[str, Any]:
    """simulation.json: everything, plain, with the verdicts."""
    ranks = [asdict(rank) | {"peak_bytes": rank.peak, "fits": rank.fits(report.limit)} for rank in report.ranks]
    return {"schema": SCHEMA_VERSION} | asdict(report) | {"fits": report.fits, "ranks": ranks}
