"""The plan's memory against MindSpore's own peak, layout by layout.

    python benchmarks/plan_against_simulation.py [tests/fixtures/simulated_peaks.json]

The file holds dry runs of one rank each (benchmarks/simulated_peaks.py made it). Compared is the peak without fragments with the plan's
total of the same stage, without its allowance for fragments. Target: each within 8 %.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from mindrecipe.plan import memory
from mindrecipe.plan.of_run import job_of
from mindrecipe.run import Run

PEAKS = Path(__file__).parents[1] / "tests" / "fixtures" / "simulated_peaks.json"


class Compared(NamedTuple):
    """One rank: MiB as planned and as MindSpore said."""

    name: str
    stage: int
    planned: float
    simulated: float

    @property
    def off(self) -> float:
        """How far the plan is off, as a share."""
        return self.planned / self.simulated - 1


def compared(row: dict[str, Any]) -> Compared:
    """The row's layout planned."""
    derived = Run.from_overrides(row["words"]).derived
    planned = memory.of_stage(job_of(derived.config, derived.family, derived.hardware, derived.device_num), row["stage"]).total
    return Compared(row["name"], row["stage"], planned / 2**20, row["peak_without_fragments_bytes"] / 2**20)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PEAKS
    rows = [compared(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    print(f"{'layout':30} {'stage':>5} {'simulated MiB':>14} {'planned MiB':>12} {'off':>7}")
    for row in rows:
        print(f"{row.name:30} {row.stage:5} {row.simulated:14.0f} {row.planned:12.0f} {row.off:+7.1%}")
    within = sum(abs(row.off) <= 0.08 for row in rows)
    print(f"{within} of {len(rows)} within 8 %, median error {statistics.median(abs(row.off) for row in rows):.1%}")


if __name__ == "__main__":
    main()
