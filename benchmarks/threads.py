"""What the threads of a rank (launch.threads_per_worker: OpenMP and MindSpore's operators) do to the speed of training on CPU.

    python benchmarks/threads.py [--rounds 2] [--steps 30] [--threads 1,2] [--ranks 1,2] [overrides of train]

In turns, each in processes of its own; the global batch is the same whatever the ranks. ``default`` is what the launcher takes by itself:
the host's cores shared by its ranks. The figure is the median of all warm steps, and its tokens a second.
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


def run(folder: Path, ranks: int, threads: str, asked: argparse.Namespace) -> list[StepRecord]:
    """The warm steps of one training."""
    words = [*asked.overrides, f"dataset.batch_size={BATCH // ranks}", f"schedule.total_steps={asked.steps}", f"run.dir={folder}"]
    words += ["evaluate=off", "checkpoint=off", "monitor.console=quiet"]
    words += ["parallel=data", f"launch.workers={ranks}"] if ranks > 1 else []
    words += [] if threads == "default" else [f"launch.threads_per_worker={threads}"]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    subprocess.run([str(Path(sys.executable).parent / "train"), *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    return list(read_steps(folder / "metrics.jsonl"))[WARM:]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("overrides", nargs="*", default=MEDIUM)
    asked = parser.parse_args()
    cells = [(int(ranks), threads) for ranks in asked.ranks.split(",") for threads in ("default", *asked.threads.split(","))]
    seen: dict[tuple[int, str], list[StepRecord]] = {cell: [] for cell in cells}
    with tempfile.TemporaryDirectory(prefix="threads-") as place:
        for number in range(asked.rounds):
            for ranks, threads in cells:
                folder = Path(place) / f"{ranks}_{threads}_{number}"
                seen[ranks, threads] += run(folder, ranks, threads, asked)
                shutil.rmtree(folder)
    print(f"{len(os.sched_getaffinity(0))} cores, global batch {BATCH}")
    print(f"{'ranks':>5}{'threads':>9}{'step':>10}{'tokens/s':>11}")
    for (ranks, threads), records in seen.items():
        step = statistics.median(record.step_time for record in records)
        rate = statistics.median(record.tokens_per_s for record in records)
        print(f"{ranks:>5}{threads:>9}{1e3 * step:>7.0f} ms{rate:>11,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
