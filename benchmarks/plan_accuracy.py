"""How near `mindrecipe plan` comes to what was published: memory, throughput, and what it refuses, by source.

    python benchmarks/plan_accuracy.py [benchmarks/published.csv] [--worst 10]

Targets: memory within 10 % for 80 % of the rows that state enough to price, never "fits" for a row that ran out of memory, and a
median error of throughput under 15 %. Exit code 1 where one is missed. The rows name their sources; no run of ours is among them.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path

from mindrecipe.plan.published import Priced, price_row

HERE = Path(__file__).with_name("published.csv")


def table(head: list[str], rows: list[list[str]]) -> None:
    for row in [head, ["---"] * len(head), *rows]:
        print(f"| {' | '.join(row)} |")


def summary(errors: list[float]) -> list[str]:
    """[rows, within 10 %, median error, error of four in five, bias]."""
    sizes = sorted(map(abs, errors))
    return [
        str(len(errors)),
        f"{100 * sum(size <= 0.1 for size in sizes) / len(sizes):.0f} %",
        f"{100 * statistics.median(sizes):.1f} %",
        f"{100 * sizes[int(0.8 * (len(sizes) - 1))]:.1f} %",
        f"{100 * statistics.median(errors):+.1f} %",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=HERE)
    parser.add_argument("--worst", type=int, default=0, help="rows with the largest errors to list")
    options = parser.parse_args()
    with options.file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    priced = [price_row(row, index) for index, row in enumerate(rows)]
    sources = [f"{row['source'].partition(' (')[0]}, {row['device'].partition(' (')[0]}" for row in rows]

    memory: dict[str, list[float]] = defaultdict(list)
    rate: dict[str, list[float]] = defaultdict(list)
    errors: list[tuple[float, str, Priced]] = []
    for source, row in zip(sources, priced, strict=True):
        if row.memory_gib and row.stated_memory:
            memory[source].append(row.memory_gib / row.stated_memory - 1)
            errors.append((abs(memory[source][-1]), "memory", row))
        if row.tokens_per_s and row.stated_tokens and not row.claim:
            rate[source].append(row.tokens_per_s / row.stated_tokens - 1)
            errors.append((abs(rate[source][-1]), "tokens/s", row))
    every_memory, every_rate = [*chain(*memory.values())], [*chain(*rate.values())]
    head = ["source, device", "rows", "within 10 %", "median error", "four in five", "bias"]
    print("Memory\n")
    table(head, [[source, *summary(found)] for source, found in sorted(memory.items())] + [["all", *summary(every_memory)]])
    out = [row for row in priced if row.out_of_memory]
    wrong = [row for row in out if row.verdict == "fits"]
    print(f"\n{len(out)} rows ran out of memory: {', '.join(f'{row.verdict} ({row.memory_gib:.0f} GiB)' for row in out if row.memory_gib)}")
    print("\nThroughput\n")
    table(head, [[source, *summary(found)] for source, found in sorted(rate.items())] + [["all", *summary(every_rate)]])

    print("\nLeft out, and why\n")
    reasons = Counter(reason.partition(" (")[0] for row in priced for reason in row.refused)
    figures = sum(bool(row.stated_memory) and not row.memory_gib for row in priced), sum(bool(row.claim) for row in priced)
    table(["rows", "reason"], [[str(count), reason] for reason, count in reasons.most_common()])
    print(f"\n{figures[0]} stated memories are not priced; {figures[1]} claims are impossible:\n")
    for row in priced:
        if row.claim:
            print(f"* row {row.row}, {row.model}: {row.claim}")
    for error, what, row in sorted(errors, key=lambda each: -each[0])[: options.worst]:
        print(f"{100 * error:.0f} % {what}: row {row.row}, {row.model}; assumed: {'; '.join(row.assumed) or 'nothing'}")

    near = sum(abs(error) <= 0.1 for error in every_memory) / len(every_memory)
    missed = near < 0.8 or bool(wrong) or statistics.median(map(abs, every_rate)) >= 0.15
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
