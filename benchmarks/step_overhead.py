"""What mindrecipe costs: `train` with all measurements on over a bare script that gives the same mindformers.yaml to mindformers.

    python benchmarks/step_overhead.py [--rounds 3] [--steps 120] [--model llama2_tiny]

In turns, from cold processes: the time from the command to the first step, the time of a step (median over the steps after the
first ten), and the losses, which must be the same to the last bit. Targets: 1.15 and 1.02.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from mindrecipe.measure.record import read_steps

BARE = Path(__file__).with_name("bare_mindformers.py")
WARM = 10


def train(folder: Path, model: str, steps: int) -> tuple[float, list[float], list[float]]:
    """(seconds to the first step, seconds of each warm step, losses) of `train`."""
    words = [f"+model={model}", f"schedule.total_steps={steps}", f"run.dir={folder}", "evaluate=off", "monitor=full"]
    started = time.time()
    subprocess.run([str(Path(sys.executable).parent / "train"), *words], check=True, stdout=subprocess.DEVNULL)
    first = next(
        event["time"]
        for event in map(json.loads, (folder / "logs" / "rank_0.events.jsonl").read_text().splitlines())
        if event["phase"] == "train"
    )
    records = list(read_steps(folder / "metrics.jsonl"))
    return first - started, [record.step_time for record in records[WARM:]], [record.loss for record in records]


def bare(native: Path, folder: Path) -> tuple[float, list[float], list[float]]:
    """The same of the bare script."""
    out = folder / "steps.json"
    clock = time.perf_counter()
    subprocess.run(
        [sys.executable, str(BARE), str(native), str(out)], check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    steps = json.loads(out.read_text())
    ended = steps["ended"]
    return ended[0] - clock, [later - earlier for earlier, later in zip(ended[WARM - 1 :], ended[WARM:], strict=False)], steps["losses"]


def native_of(run: Path, folder: Path) -> Path:
    """The run's mindformers.yaml with its output moved to the bare script's folder."""
    config = yaml.safe_load((run / "mindformers.yaml").read_text())
    config["output_dir"] = str(folder)
    for callback in config["callbacks"]:
        if "directory" in callback:
            callback["directory"] = str(folder)
    path = folder / "mindformers.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--model", default="llama2_tiny")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as base:
        train(Path(base) / "warm", args.model, 2)  # builds the data set and warms the file cache
        for number in range(args.rounds):
            run, plain = Path(base) / f"run{number}", Path(base) / f"bare{number}"
            plain.mkdir()
            ours = train(run, args.model, args.steps)
            theirs = bare(native_of(run, plain), plain)
            identical = ours[2] == theirs[2]
            rows.append((ours[0] / theirs[0], statistics.median(ours[1]) / statistics.median(theirs[1]), identical))
            print(
                f"round {number + 1}: first step {ours[0]:.1f} s / {theirs[0]:.1f} s, step {1e3 * statistics.median(ours[1]):.1f} ms / "
                f"{1e3 * statistics.median(theirs[1]):.1f} ms, losses {'identical' if identical else 'DIFFER'}",
                flush=True,
            )
            shutil.rmtree(run)
    first, step = (statistics.median(column) for column in list(zip(*rows, strict=True))[:2])
    print(f"\n| {args.model}, {args.steps} steps | `train` over the bare script, median of {args.rounds} |\n| --- | --- |")
    print(f"| time to the first step | {first:.3f} |\n| time of a step | {step:.3f} |")
    print(f"| losses bit-identical | {'yes' if all(row[2] for row in rows) else 'NO'} |")


if __name__ == "__main__":
    main()
