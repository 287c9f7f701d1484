"""What saving costs a training: the stall of one checkpoint, and what the steps after it take longer, synchronous and asynchronous.

    python benchmarks/save_cost.py [--pairs 10] [--every 6] [overrides of train]

One run, whose saves are in turns synchronous and in the background (alternate_saves.py): each pair meets the same machine within
seconds. A stall is the time that the saving callback held a step up (``checkpoint_time`` in metrics.jsonl). What is written beside the
training slows it down too: the steps from a save to the middle between two saves, the saving one included, are compared with those from
there to the next save. The table gives medians, and of the differences within pairs the median and how many have its sign, with the chance
that as many or more would have one sign were there no difference (a two-sided sign test).
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mindrecipe.checkpoints.find import find
from mindrecipe.measure.record import StepRecord, read_steps

#: many weights and little to compute: most of them are a vocabulary's
LARGE = ["+model=llama2_tiny", "model.hidden_size=256", "model.num_heads=4", "model.num_layers=1", "model.intermediate_size=null"]
LARGE += ["model.vocab_size=24000", "model.seq_length=64", "dataset.batch_size=1", "dataset.tokenizer=bytes"]
HERE = Path(__file__).parent


def run(folder: Path, asked: argparse.Namespace) -> None:
    """Train once. The first pair of saves is not counted, and half a cycle follows the last."""
    steps = asked.every * (2 * asked.pairs + 3) + asked.every - 1
    words = [*asked.overrides, f"schedule.total_steps={steps}", "evaluate=off", f"run.dir={folder}", "monitor.console=quiet"]
    words += ["checkpoint=steps", f"checkpoint.save_steps={asked.every}", "checkpoint.keep=2", "checkpoint.async_save=true"]
    words += ["run.imports=[alternate_saves]", f"native.callbacks.AlternateSaves.every={asked.every}"]
    subprocess.run([str(Path(sys.executable).parent / "train"), *words], check=True, stdout=subprocess.DEVNULL, cwd=HERE)


def told(name: str, synchronous: list[float], asynchronous: list[float]) -> str:
    """A row of the table; figures in seconds."""
    differences = [left - right for left, right in zip(synchronous, asynchronous, strict=True)]
    median = statistics.median(differences)
    same = sum(math.copysign(1, difference) == math.copysign(1, median) for difference in differences)
    most = max(same, len(differences) - same)
    chance = min(1.0, 2 * sum(math.comb(len(differences), k) for k in range(most, len(differences) + 1)) / 2 ** len(differences))
    left, right = statistics.median(synchronous), statistics.median(asynchronous)
    figures = "".join(f"{1e3 * value:>10.0f} ms" for value in (left, right, median))
    return f"{name:<22}{figures}{f'{same} of {len(differences)}':>12}{chance:>10.2g}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("overrides", nargs="*", default=LARGE)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="save-cost-") as place:
        folder = Path(place) / "run"
        run(folder, asked)
        records = {record.step: record for record in read_steps(folder / "metrics.jsonl")}
        size = sum(path.stat().st_size for path in find(folder).complete[-1].files)
    saves = [asked.every * number for number in range(3, 2 * asked.pairs + 3)]  # the third is synchronous, the fourth not, ...
    stalls = [records[step].checkpoint_time for step in saves]
    half = asked.every // 2
    extra = [_sum(records, step, half) - _sum(records, step + half, half) for step in saves]
    step = statistics.median(record.step_time for record in records.values() if record.step % asked.every >= half)
    print(f"a checkpoint of {size / 2**20:.0f} MiB every {asked.every} steps of {1e3 * step:.0f} ms; {asked.pairs} pairs of saves")
    print(f"{'':<22}{'sync':>13}{'async':>13}{'difference':>13}{'same sign':>12}{'chance':>10}")
    print(told("stall", stalls[::2], stalls[1::2]))
    print(told(f"longer, {half} steps in all", extra[::2], extra[1::2]))
    shares = [statistics.median(kind) / step for kind in (stalls[::2], stalls[1::2])]
    print(f"a stall in steps: {shares[0]:.2f} synchronous, {shares[1]:.2f} asynchronous")
    return 0


def _sum(records: dict[int, StepRecord], first: int, count: int) -> float:
    return sum(records[step].step_time for step in range(first, first + count))


if __name__ == "__main__":
    sys.exit(main())
