"""How often the gate is right: false alarms between identical recipes, and injected regressions that it catches.

    python benchmarks/gate_power.py [--trials 20] [--rounds 5] [--pairs 12] [--steps 4] [--model llama2_tiny] [--keep FILE | --again FILE]

A trial is what `mindrecipe bench --rounds` does: so many rounds, each a pair of new processes that are measured in turns, and one
verdict. Every kind of trial has ``trials`` of them, and no two share a round, so that their counts are binomial: A against A; A against A
with 5 % more work a step; A against A with 10 % more memory and a learning rate 2 % higher. Rates are given with the exact 95 %
interval (Clopper and Pearson). Targets: at most 5 % of the trials of identical recipes judged different in anything, at least 95 % of
each injection caught by a metric it was made for. None wrong of 20 is 0 to 17 %: to show "at most 5 %" takes 72 trials without any.
Only on a machine that does nothing else. --keep keeps every measurement, and a call that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from mindrecipe.judge import bench, thresholds
from mindrecipe.judge.compare import DESPITE, Comparison, compare
from mindrecipe.judge.measured import Measured
from mindrecipe.judge.rounds import together

INJECTED = {
    "identical": [],
    "5 % more work a step": ["native.callbacks.Burn={share: 0.05}"],
    "10 % more memory, learning rate 2 % higher": ["native.callbacks.Ballast={share: 0.1}", "optimizer.learning_rate=0.00306"],
}


#: what each kind must be told by, and as what
CAUGHT_BY = {
    "5 % more work a step": {"throughput": "worse", "cpu_time": "worse"},
    "10 % more memory, learning rate 2 % higher": {"memory": "worse", "loss_pointwise": "worse"},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--model", default="llama2_tiny")
    parser.add_argument("--keep", type=Path, help="append every measurement to this JSON-lines file, and go on from what it has")
    parser.add_argument("--again", type=Path, help="judge the measurements of such a file, and measure nothing")
    args = parser.parse_args()
    tolerances = thresholds.parse(())
    found: dict[str, list[Comparison]] = defaultdict(list)
    for kind, a, b in kept(args.again) if args.again else measured(args):
        found[kind].append(compare(a, b, tolerances, despite=DESPITE, paired=True))
        off = [f"{metric.name} {100 * metric.difference:+.1f} %" for metric in found[kind][-1].metrics if metric.difference]
        print(f"{kind}, round {len(found[kind])}: {', '.join(off)}", flush=True)
    print(f"\n{args.model}, trials of {args.rounds} rounds, each of {args.pairs} pairs of turns of {args.steps} steps")
    print("\n| B against A | trials | judged | same | better | worse | unclear |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    verdicts = {kind: [together(part, tolerances) for part in whole_parts(rounds, args.rounds)] for kind, rounds in found.items()}
    for kind, trials in verdicts.items():
        for name in [metric.name for metric in trials[0].metrics] if trials else ():
            own = [metric.verdict for trial in trials for metric in trial.metrics if metric.name == name]
            counts = " | ".join(str(own.count(word)) for word in ("same", "better", "worse", "unclear"))
            print(f"| {kind} | {len(trials)} | {name} | {counts} |")
    print("\n| rate | of trials | share | 95 % interval |\n| --- | --- | --- | --- |")
    for kind, trials in verdicts.items():
        rates = {}
        if kind in CAUGHT_BY:
            for name, verdict in CAUGHT_BY[kind].items():
                rates[f"{kind}: {name} {verdict}"] = sum(told(trial, name) == verdict for trial in trials)
        else:
            rates[f"{kind}: false alarm in any metric"] = sum(
                bool({"better", "worse"} & {metric.verdict for metric in trial.metrics}) for trial in trials
            )
        for what, count in rates.items():
            low, high = clopper_pearson(count, len(trials))
            share = f"{100 * count / len(trials):.0f} %" if trials else "-"
            print(f"| {what} | {count} of {len(trials)} | {share} | {100 * low:.0f} to {100 * high:.0f} % |")


def whole_parts(rounds: Sequence[Comparison], size: int) -> list[Sequence[Comparison]]:
    """Rounds in trials that share none; what is left over is none."""
    return [rounds[at : at + size] for at in range(0, len(rounds) - size + 1, size)]


def told(trial: Comparison, name: str) -> str | None:
    """The verdict on one metric."""
    return next((metric.verdict for metric in trial.metrics if metric.name == name), None)


def clopper_pearson(count: int, trials: int) -> tuple[float, float]:
    """Exact 95 % bounds of the rate of which ``count`` of ``trials`` were seen; 0 to 1 without trials."""

    def at_least(rate: float, least: int) -> float:
        return sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(least, trials + 1))

    def solve(least: int, target: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at_least(middle, least) < target else (low, middle)
        return (low + high) / 2

    return (solve(count, 0.025) if count else 0.0), (solve(count + 1, 0.975) if count < trials else 1.0)


def kept(file: Path) -> Iterator[tuple[str, Measured, Measured]]:
    """What an earlier call has measured."""
    for line in file.read_text().splitlines():
        raw = json.loads(line)
        yield raw["kind"], Measured.from_dict(raw["a"]), Measured.from_dict(raw["b"])


def measured(args: argparse.Namespace) -> Iterator[tuple[str, Measured, Measured]]:
    """All rounds: those that an earlier call has kept, and the others, measured now."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent.resolve()), os.environ.get("PYTHONPATH")]))
    base = [f"+model={args.model}", "evaluate=off", "checkpoint=off", "run.imports=[gate_parts]"]
    there = list(kept(args.keep)) if args.keep and args.keep.is_file() else []
    yield from there
    done = Counter(kind for kind, _, _ in there)
    for number in range(args.trials * args.rounds):
        for kind, more in INJECTED.items():
            if number < done[kind]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = bench.run(base, [*base, *more], Path(folder) / "bench", pairs=args.pairs, steps=args.steps)
            if args.keep:
                with args.keep.open("a") as lines:
                    lines.write(json.dumps({"kind": kind, "a": found.a.as_dict(), "b": found.b.as_dict()}) + "\n")
            yield kind, found.a, found.b


if __name__ == "__main__":
    main()
