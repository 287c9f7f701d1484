"""How often the gate is right: false alarms between identical recipes, and injected regressions that it catches.

    python benchmarks/gate_power.py --keep gate.jsonl [--trials 60] [--rounds 5] [--pairs 8] [--threads 1] [--minutes 70] [--again]

A trial is what `mindrecipe bench --rounds` does: so many rounds, each a pair of new processes measured in turns, and one verdict. Here
four processes take turns: A, A, B, B, where B's step takes 5 % longer, B has 10 % more memory and a learning rate 2 % higher. They make two
rounds of identical recipes (A beside A, B beside B) and two of different ones (each A beside a B): twice as many for the same time, most
of which is importing and compiling. Within a kind no two rounds share a process, and no two trials a round. Turns of a pair lie
further apart than with two processes, and two more are held meanwhile: what bench does is no noisier than this. Its verdict is told
metric by metric, and one injection does not touch the other's metrics. A process computes with one thread: a core is left for whatever
else the machine does. Processes that use all of its cores differ several times as much (--threads 2).

Rates are given with the exact 95 % interval (Clopper and Pearson), and the bound that is certain at 95 % on the side of the target.
Targets: at most 5 % of the trials of identical recipes judged different in anything, at least 95 % of each injection caught by
a metric it was made for: 59 trials without any wrong one show that. Rounds are alike whichever they are, so that trials drawn from all
of them tell the same rate more closely: their interval is the jackknife's, over tenths of the measurements. Only on a machine that does
nothing else. --keep keeps every measurement, and a call that was stopped, or whose --minutes were over, goes on where it was; --again
only judges what it has.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from parts import let_trainings_find_them

from mindrecipe.judge import bench, thresholds
from mindrecipe.judge.compare import DESPITE, Comparison, compare
from mindrecipe.judge.measured import Measured
from mindrecipe.judge.rounds import TIMES, together
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.tail import trim_torn_line

RECIPE = ("+model=llama2_tiny", "model.num_layers=1", "dataset.batch_size=4", "evaluate=off", "checkpoint=off", "run.imports=[gate_parts]")
INJECTED = ("native.callbacks.Burn={share: 0.05}", "native.callbacks.Ballast={share: 0.1}", "optimizer.learning_rate=0.00306")
#: streams of rounds: places of the two processes. Trials are cut from one stream, as the rounds of a bench follow each other
IDENTICAL, DIFFERENT = ((0, 1), (2, 3)), ((0, 2), (1, 3))
#: what B must be told by
CAUGHT_BY = {
    "a step 5 % longer": "throughput",
    "10 % more memory": "memory",
    "learning rate 2 % higher": "loss_pointwise",
}
DRAWN, GROUPS = 4000, 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=60, help="of each kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each process: fewer than the machine has cores")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no measurement after so many")
    parser.add_argument(
        "--keep", type=Path, required=True, help="append every measurement to this JSON-lines file, and go on from what it has"
    )
    parser.add_argument("--again", action="store_true", help="judge what that file has, and measure nothing")
    args = parser.parse_args()
    tolerances = thresholds.parse(())
    fours = list(kept(args.keep))
    if not args.again:
        fours += measured(args, len(fours))

    def streams(kind: Sequence[tuple[int, int]]) -> list[list[Comparison]]:
        return [[compare(four[a], four[b], tolerances, despite=DESPITE, paired=True) for four in fours] for a, b in kind]

    identical, different = streams(IDENTICAL), streams(DIFFERENT)
    print(f"\n{len(fours)} measurements; trials of {args.rounds} rounds, each of {args.pairs} pairs of turns of {args.steps} steps\n")
    print("| two processes, of | metric | differ by, mean | standard deviation |\n| --- | --- | --- | --- |")
    for kind, found in (("identical recipes", identical), ("A and B", different)):
        for name in TIMES:
            metrics = [metric for stream in found for each in stream for metric in each.metrics if metric.name == name]
            logs = [math.log1p(metric.difference) for metric in metrics if metric.difference is not None]
            if len(logs) > 1:
                print(f"| {kind} | {name} | {100 * statistics.fmean(logs):+.2f} % | {100 * statistics.stdev(logs):.2f} % |")
    verdicts = {
        kind: [together(part, tolerances) for stream in found for part in whole_parts(stream, args.rounds)]
        for kind, found in (("identical recipes", identical), ("B against A", different))
    }
    print("\n| trials of | judged | same | better | worse | unclear |\n| --- | --- | --- | --- | --- | --- |")
    for kind, trials in verdicts.items():
        for name in [metric.name for metric in trials[0].metrics] if trials else ():
            own = [told(trial, name) for trial in trials]
            print(f"| {kind} | {name} | {' | '.join(str(own.count(word)) for word in ('same', 'better', 'worse', 'unclear'))} |")
    print("\n| rate | of trials | share | 95 % interval | certain at 95 % |\n| --- | --- | --- | --- | --- |")
    row("false alarm in any metric", [alarmed(trial) for trial in verdicts["identical recipes"]], at_most=True)
    for what, metric in CAUGHT_BY.items():
        row(f"{what}: told by {metric}", [told(trial, metric) == "worse" for trial in verdicts["B against A"]], at_most=False)
    print(f"\n| rate of {DRAWN:,} trials, drawn | share | 95 % interval |\n| --- | --- | --- |")
    drawn_row("false alarm in any metric", alarmed, identical, args.rounds, tolerances)
    for what, metric in CAUGHT_BY.items():
        drawn_row(f"{what}: told by {metric}", lambda trial, name=metric: told(trial, name) == "worse", different, args.rounds, tolerances)


def alarmed(trial: Comparison) -> bool:
    """Whether anything is called better or worse."""
    return any(metric.verdict in ("better", "worse") for metric in trial.metrics)


def drawn_row(
    what: str, seen: Callable[[Comparison], bool], streams: Sequence[Sequence[Comparison]], size: int, tolerances: dict[str, float]
) -> None:
    """The same rate over trials of ``size`` rounds drawn from all there are, with its interval (jackknife over GROUPS of measurements)."""
    draw, count = random.Random(0), len(streams[0])
    if count < max(GROUPS, 4 * size):
        return

    def rate(kept: Sequence[int], trials: int) -> float:
        pool = [stream[number] for stream in streams for number in kept]
        return statistics.fmean(seen(together(draw.sample(pool, size), tolerances)) for _ in range(trials))

    whole = rate(range(count), DRAWN)
    without = [rate([number for number in range(count) if number % GROUPS != group], DRAWN // GROUPS) for group in range(GROUPS)]
    half = 1.96 * math.sqrt((GROUPS - 1) / GROUPS * sum((each - statistics.fmean(without)) ** 2 for each in without))
    print(f"| {what} | {100 * whole:.1f} % | {100 * max(0.0, whole - half):.1f} to {100 * min(1.0, whole + half):.1f} % |")


def row(what: str, seen: Sequence[bool], *, at_most: bool) -> None:
    """A line of the table of rates."""
    if not seen:
        return
    count, trials = sum(seen), len(seen)
    low, high = clopper_pearson(count, trials, 0.025)
    bound = clopper_pearson(count, trials, 0.05)[at_most]
    certain = f"{'at most' if at_most else 'at least'} {100 * bound:.1f} %"
    print(f"| {what} | {count} of {trials} | {100 * count / trials:.0f} % | {100 * low:.0f} to {100 * high:.0f} % | {certain} |")


def whole_parts(rounds: Sequence[Comparison], size: int) -> list[Sequence[Comparison]]:
    """Rounds in trials that share none; what is left over is none."""
    return [rounds[at : at + size] for at in range(0, len(rounds) - size + 1, size)]


def told(trial: Comparison, name: str) -> str | None:
    """The verdict on one metric."""
    return next((metric.verdict for metric in trial.metrics if metric.name == name), None)


def clopper_pearson(count: int, trials: int, tail: float) -> tuple[float, float]:
    """Exact bounds of the rate of which ``count`` of ``trials`` were seen; beyond each lies ``tail``."""

    def at_least(rate: float, least: int) -> float:
        return sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(least, trials + 1))

    def solve(least: int, target: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at_least(middle, least) < target else (low, middle)
        return (low + high) / 2

    return (solve(count, tail) if count else 0.0), (solve(count + 1, 1 - tail) if count < trials else 1.0)


def kept(file: Path) -> Iterator[list[Measured]]:
    """What earlier calls have measured. A last line that was cut short is none, and goes: the next would be appended to it."""
    if not file.is_file():
        return
    trim_torn_line(file)
    for line in file.read_text().splitlines():
        yield [Measured.from_dict(raw) for raw in json.loads(line)["sides"]]


def measured(args: argparse.Namespace, done: int) -> Iterator[list[Measured]]:
    """What is still wanted, measured now: each of the four gives one round to each of two streams of each kind."""
    let_trainings_find_them()
    recipe = (*RECIPE, f"launch.threads_per_worker={args.threads}")
    sides = (recipe, recipe, (*recipe, *INJECTED), (*recipe, *INJECTED))
    wanted, began = math.ceil(args.trials / 2) * args.rounds, time.monotonic()
    for number in range(done + 1, wanted + 1):
        if time.monotonic() - began > 60 * args.minutes:
            return
        with tempfile.TemporaryDirectory() as folder:
            found = bench.turns(sides, Path(folder) / "turns", pairs=args.pairs, steps=args.steps)
        with args.keep.open("a") as lines:
            lines.write(json.dumps(plain({"sides": [side.as_dict() for side in found]})) + "\n")
        print(f"{number} of {wanted}, {(time.monotonic() - began) / (number - done):.0f} s each", flush=True)
        yield found


if __name__ == "__main__":
    main()
