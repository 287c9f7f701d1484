"""What the threads of a rank (launch.threads_per_worker: OpenMP and MindSpore's operators) do to the speed of training on CPU.

    python benchmarks/threads.py [--rounds 3] [--steps 25] [--threads 1,2] [--ranks 1,2] [overrides of train]

In turns, each in processes of its own; the global batch is the same whatever the ranks. The default of the launcher is the host's cores
shared by its ranks: within each round the others are compared with it. The figures are medians of all warm steps, and of the ratios of the
rounds with the least and the greatest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mindrecipe.measure.record import StepRecord, read_steps

MEDIUM = ["+model=llama2_tiny", "model.hidden_size=256", "model.num_heads=8", "model.intermediate_size=null"]
WARM = 5
BATCH = 8


def run(folder: Path, ranks: int, threads: int, asked: argparse.Namespace) -> list[StepRecord]:
    """The warm steps of one training."""
    words = [*asked.overrides, f"dataset.batch_size={BATCH // ranks}", f"schedule.total_steps={asked.steps}", f"run.dir={folder}"]
    words += ["evaluate=off", "checkpoint=off", "monitor.console=quiet", f"launch.threads_per_worker={threads}"]
    words += ["parallel=data", f"launch.workers={ranks}"] if ranks > 1 else []
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    subprocess.run([str(Path(sys.executable).parent / "train"), *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    return list(read_steps(folder / "metrics.jsonl"))[WARM:]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("overrides", nargs="*", default=MEDIUM)
    asked = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    counts = {int(threads) for threads in asked.threads.split(",")}
    defaults = {int(ranks): max(1, cores // int(ranks)) for ranks in asked.ranks.split(",")}
    cells = [(ranks, threads) for ranks, default in defaults.items() for threads in sorted(counts | {default})]
    seen: dict[tuple[int, int], list[list[StepRecord]]] = {cell: [] for cell in cells}
    with tempfile.TemporaryDirectory(prefix="threads-") as place:
        for number in range(asked.rounds):
            for cell in cells:
                folder = Path(place) / f"{cell[0]}_{cell[1]}_{number}"
                seen[cell].append(run(folder, *cell, asked))
                shutil.rmtree(folder)
    print(f"{cores} cores, global batch {BATCH}, {asked.rounds} rounds of {asked.steps - WARM} warm steps; load {os.getloadavg()[1]:.1f}")
    print(f"{'ranks':>5}{'threads':>9}{'step':>10}{'tokens/s':>11}  time of a step over the default's")
    for (ranks, threads), rounds in seen.items():
        records = [record for each in rounds for record in each]
        rate = statistics.median(record.tokens_per_s for record in records)
        over = [_step(mine) / _step(default) for mine, default in zip(rounds, seen[ranks, defaults[ranks]], strict=True)]
        ratio = "the default" if threads == defaults[ranks] else f"{statistics.median(over):.2f} ({min(over):.2f} to {max(over):.2f})"
        print(f"{ranks:>5}{threads:>9}{1e3 * _step(records):>7.0f} ms{rate:>11,.0f}  {ratio}")
    return 0


def _step(records: list[StepRecord]) -> float:
    return statistics.median(record.step_time for record in records)


if __name__ == "__main__":
    sys.exit(main())
