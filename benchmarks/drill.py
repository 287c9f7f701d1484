"""Random kills of a short run: all must recover, none may differ from the run that was not killed. Prints a table and the figures.

    python benchmarks/drill.py --kills 50 [overrides of train]

Each kill is told as it ends. The runs go at the end where all is well; where one failed, they stay, and it is said where.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mindrecipe.drill import Row, drill

SMALL = ["+model=llama2_tiny", "model.num_layers=1"]
KILLS = ("worker", "launcher", "save", "sigterm", "corrupt")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", default=SMALL)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    faults = [dice.choice(KILLS) for _ in range(asked.kills)]
    folder = Path(tempfile.mkdtemp(prefix="drill-"))
    began = time.monotonic()
    rows: list[Row] = []
    for row in drill(asked.overrides, folder, faults=faults, steps=24, every=4, seed=asked.seed):
        rows.append(row)
        recovered = "-" if row.recovered is None else f"{row.recovered:.1f} s"
        told = f"{len(rows) - 1:>4} {row.fault:<10} at step {row.at:<3} lost {row.lost or 0}, recovered in {recovered}"
        print(told, "identical" if row.identical else f"FAILED: {row.problem}", sep=", ", flush=True)
    straight, *broken = rows
    print(
        f"{len(broken)} kills in {(time.monotonic() - began) / 60:.0f} min, {sum(row.identical for row in broken)} recovered and identical"
    )
    print(f"{'fault':<10}{'runs':>5}{'recovered':>11}{'identical':>11}{'lost steps':>12}{'recovered in (median)':>23}")
    for fault in sorted({row.fault for row in broken}):
        mine = [row for row in broken if row.fault == fault]
        times = [row.recovered for row in mine if row.recovered is not None]
        took = f"{statistics.median(times):.1f} s" if times else "-"
        lost = sum(row.lost or 0 for row in mine) / len(mine)
        print(f"{fault:<10}{len(mine):>5}{len(times):>11}{sum(row.identical for row in mine):>11}{lost:>12.1f}{took:>23}")
    good = straight.identical and all(row.identical for row in broken)
    if good:
        shutil.rmtree(folder)
    else:
        print(f"runs: {folder}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
