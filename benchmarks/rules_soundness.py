"""How far the rules and stock mindformers agree: configurations near the borders of the rules, judged by both.

    python benchmarks/rules_soundness.py [--number 2000] [--seed 1] [--show 20]

mindformers judges up to the built and wrapped network (tests/rules/stock_judge.py). An accepted configuration that it refuses is a
false accept; one that only rules of outcome "stops" reject and that it builds is a false alarm, but for rules of what stops later
(tests/rules/borders.py LATER). Exit code 1 where there is either, or a global batch that differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests"), str(Path(__file__).resolve().parents[1] / "tests/rules")]

from borders import draw, tally  # noqa: E402 - they lie beside the tests


def main() -> int:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    given = parser.parse_args()
    rng, began = random.Random(given.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = tally((draw(rng) for _ in range(given.number)), Path(folder))
    print(f"{given.number} drawn with seed {given.seed}, {found.drawn} composed, in {time.monotonic() - began:.0f} s")
    refused, differ, alarms = len(found.false_accepts), len(found.wrong_batches), len(found.false_alarms)
    print(f"{found.accepted} accepted by check: {refused} refused by mindformers, {differ} global batches differ")
    print(f"{found.rejected} rejected by check: {alarms} built by mindformers although only rules that stop a run objected")
    for rule, count in sorted(found.stops.items()):
        print(f"  {rule:32s} objected {count:5d} times, mindformers refused {found.confirmed[rule]:5d} of these")
    for title, listed in (("false accept", found.false_accepts), ("false alarm", found.false_alarms)):
        for text, words in listed[: given.show]:
            print(f"{title}: mindrecipe check {text}\n    {words}")
    for text in found.wrong_batches[: given.show]:
        print(f"global batch: {text}")
    return 1 if found.false_accepts or found.false_alarms or found.wrong_batches else 0


if __name__ == "__main__":
    sys.exit(main())
