"""Random kills of short runs: all must recover, none may differ from the run that was not killed. Prints a table and the figures.

    python benchmarks/drill.py --keep kills.jsonl [--kills 50] [--a-run 5] [--minutes 60] [--again] [overrides of train]

A run is broken --a-run times, each time as soon as it has recovered from the one before: so many kills take one start from the beginning
more. Each run is told as it ends, and --keep gets a JSON line of it: what was asked, each fault with its step, its times, the steps that
were lost, and of a kill of a rank that saves the files that were unfinished. A call that was stopped, or whose --minutes were over, goes
on where it was; --again only prints the table of what the file has. The directories go at the end where all is well; where a run
failed, they stay, and it is said where.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mindrecipe.drill import drill
from mindrecipe.measure.tail import trim_torn_line

SMALL = ["+model=llama2_tiny", "model.num_layers=1"]
KILLS = ("worker", "launcher", "save", "sigterm", "corrupt")
STEPS, EVERY = 24, 4


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--a-run", type=int, default=5, help="kills of one run, in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, required=True, help="append every run to this JSON-lines file, and go on from what it has")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run after so many")
    parser.add_argument("--again", action="store_true", help="print the table of what that file has, and train nothing")
    parser.add_argument("overrides", nargs="*", default=SMALL)
    args = parser.parse_args()
    asked = {"overrides": args.overrides, "seed": args.seed, "a_run": args.a_run, "steps": STEPS, "every": EVERY}
    rows = kept(args.keep)
    other = next((row["asked"] for row in rows if row["asked"] != asked), None)
    if other is not None and not args.again:
        print(f"{args.keep} has runs of {other}, not of {asked}: another --keep", file=sys.stderr)
        return 2
    whole = True
    if not args.again:
        whole = measure(args, asked, rows)
    table(rows)
    return 0 if whole and all(row["identical"] for row in rows) else 1


def kept(file: Path) -> list[dict[str, Any]]:
    """What earlier calls have measured. A last line that was cut short is none, and goes: the next would be appended to it."""
    if not file.is_file():
        return []
    trim_torn_line(file)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def plan(kills: int, a_run: int, seed: int, done: int) -> list[str]:
    """The faults of each run, joined by +, after the first ``done``: the same ones for the same seed, whatever ``kills`` is."""
    dice = random.Random(seed)
    drawn = [dice.choice(KILLS) for _ in range(kills)][done:]
    return ["+".join(drawn[at : at + a_run]) for at in range(0, len(drawn), a_run)]


def measure(args: argparse.Namespace, asked: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Add to ``rows`` and to --keep the runs that are still wanted; whether the straight run was whole and no run failed."""
    wanted = plan(args.kills, args.a_run, args.seed, sum(len(row["fault"].split("+")) for row in rows))
    if not wanted:
        return True
    folder, began, good = Path(tempfile.mkdtemp(prefix="drill-")), time.monotonic(), True
    for row in drill(args.overrides, folder, faults=wanted, steps=STEPS, every=EVERY, seed=args.seed + len(rows)):
        good = good and row.identical
        took = (time.monotonic() - began) / 60
        if row.fault != "none":
            rows.append({"asked": asked, **asdict(row)})
            with args.keep.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(rows[-1]) + "\n")
        hits = ", ".join(f"{hit.fault} at {hit.at}" for hit in row.hits) or "straight"
        print(f"{took:5.1f} min: {hits}: {'identical' if row.identical else f'FAILED: {row.problem}'}", flush=True)
        if took > args.minutes:
            break
    if good:
        shutil.rmtree(folder)
    else:
        print(f"runs: {folder}")
    return good


def table(rows: Sequence[dict[str, Any]]) -> None:
    """One line a kind of fault; a run that differs counts against each of its faults."""
    hits = [(hit, row["identical"]) for row in rows for hit in row["hits"]]
    print(f"\n{len(hits)} kills of {len(rows)} runs, {sum(row['identical'] for row in rows)} runs identical\n")
    print("| fault | kills | recovered | in identical runs | lost steps, mean | recovered in, median | in an unfinished write |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for fault in KILLS:
        mine = [(hit, identical) for hit, identical in hits if hit["fault"] == fault]
        if not mine:
            continue
        times = [hit["recovered"] for hit, _ in mine if hit["recovered"] is not None]
        inside = [bool(hit["unfinished"]) for hit, _ in mine if hit["unfinished"] is not None]
        cells = [fault, len(mine), len(times), sum(identical for _, identical in mine)]
        cells += [f"{statistics.fmean(hit['lost'] for hit, _ in mine):.1f}", f"{statistics.median(times):.1f} s" if times else "-"]
        cells += [f"{sum(inside)} of {len(inside)}" if inside else "-"]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    sys.exit(main())
