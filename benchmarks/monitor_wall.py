"""What the monitor adds to the time of a step, all in all: switched off and on again within one process.

    python benchmarks/monitor_wall.py [--steps 9000]

monitor_cost.py adds up the CPU time of the hooks. What a hook, a thread or a file does to the rest of a step is not in that sum, and two
processes of one recipe differ by more than the monitor costs: so one training of a small step changes between nothing, the defaults
and everything every six steps (switch_parts.py), and what is compared lies beside each other in one process, on one of the cores. Told in
microseconds a step with 95 % intervals (bootstrap over sixes of neighbouring blocks), and as a share of the 147 ms step that
monitor_cost.py tells shares of. Five minutes of a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
from parts import let_trainings_find_them

from mindrecipe.judge.training import Training

RECIPE = ("+model=llama2_tiny", "model.num_layers=1", "dataset.batch_size=4", "launch.threads_per_worker=1", "evaluate=off")
SWITCHED = (
    *("monitor=full", "monitor.update_ratio_steps=null", "monitor.grad_groups=false", "monitor.usage_interval=null"),
    *("checkpoint=off", "run.imports=[switch_parts]"),
)
SIX, DRAWS, STEP = 6, 4000, 147_000.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=9_000)
    args = parser.parse_args()
    let_trainings_find_them()
    with tempfile.TemporaryDirectory() as name:
        run = Training([*RECIPE, *SWITCHED, f"schedule.total_steps={args.steps}"], Path(name) / "run")
        try:
            run.require_success()
        finally:
            run.stop()
        blocks = json.loads(next(Path(name).rglob("blocks.json")).read_text())
    sixes = [blocks[at : at + SIX] for at in range(0, len(blocks) - SIX, SIX)]  # the last one may be cut short
    draw = np.random.default_rng(0)
    print(f"{len(sixes)} sixes of blocks; a step of {1e3 * statistics.median(took for _, block in blocks for took in block):.1f} ms")
    print("\n| over nothing | us a step | of a step of 147 ms |\n| --- | --- | --- |")
    for state in ("defaults", "everything"):
        over = np.array([1e6 * (usual(six, state) - usual(six, "nothing")) for six in sixes])
        drawn = np.median(draw.choice(over, (DRAWS, len(over))), axis=1)
        found = [float(np.median(over)), *np.percentile(drawn, [2.5, 97.5])]
        told = [
            "{:+.0f} ({:+.0f} to {:+.0f})".format(*found),
            "{:+.2f} % ({:+.2f} to {:+.2f} %)".format(*(100 * us / STEP for us in found)),
        ]
        print(f"| {state} | {' | '.join(told)} |")


def usual(six: list[tuple[str, list[float]]], state: str) -> float:
    """Seconds of the median step of both blocks of ``state``."""
    return statistics.median(took for own, block in six for took in block if own == state)


if __name__ == "__main__":
    main()
