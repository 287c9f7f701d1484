"""Random kills of a short run: all must recover, none may differ from the run that was not killed. Prints a table and the figures.

python benchmarks/drill.py --kills 50 [overrides of train]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from pathlib import Path

from mindrecipe.drill import drill

SMALL = ["+model=llama2_tiny", "model.num_layers=1"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", default=SMALL)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    faults = [dice.choice(("worker", "launcher", "save", "sigterm", "corrupt")) for _ in range(asked.kills)]
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        straight, *rows = drill(asked.overrides, Path(folder), faults=faults, steps=24, every=4, seed=asked.seed)
    print(f"straight run: {'whole' if straight.identical else straight.problem}")
    print(f"{'fault':<10}{'runs':>5}{'recovered':>11}{'identical':>11}{'lost steps':>12}{'recovered in (median)':>23}")
    for fault in sorted(set(faults)):
        mine = [row for row in rows if row.fault == fault]
        times = [row.recovered for row in mine if row.recovered is not None]
        took = f"{statistics.median(times):.1f} s" if times else "-"
        lost = sum(row.lost or 0 for row in mine) / len(mine)
        print(f"{fault:<10}{len(mine):>5}{len(times):>11}{sum(row.identical for row in mine):>11}{lost:>12.1f}{took:>23}")
    for row in rows:
        if row.problem:
            print(f"{row.fault} at step {row.at}: {row.problem}")
    return 0 if straight.identical and all(row.identical for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
