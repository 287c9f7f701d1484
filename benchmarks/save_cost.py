"""What saving costs a training: the stall of one checkpoint, synchronous and asynchronous, as a share of a step, and of all steps together.

    python benchmarks/save_cost.py [--rounds 2] [--steps 40] [--every 5] [overrides of train]

In turns, each in processes of its own: without checkpoints, with synchronous ones, with asynchronous ones. A stall is the time that the
saving callback held a step up (``checkpoint_time`` in metrics.jsonl). What is written beside the training slows it down too: that is in the
last column, the time of all warm steps over that of the run which saves nothing.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from mindrecipe.checkpoints.find import find
from mindrecipe.measure.record import StepRecord, read_steps

MEDIUM = ["+model=llama2_tiny", "model.hidden_size=256", "model.num_heads=8", "model.intermediate_size=null", "dataset.batch_size=4"]
WARM = 5
KINDS = {"none": [], "synchronous": ["checkpoint.async_save=false"], "asynchronous": ["checkpoint.async_save=true"]}


@dataclass
class Seen:
    """Of one kind, over all rounds, in seconds: steps that did not save, stalls of those that did, all warm steps of each round."""

    steps: list[float] = field(default_factory=list)
    stalls: list[float] = field(default_factory=list)
    wholes: list[float] = field(default_factory=list)
    size: int = 0


def run(folder: Path, kind: str, asked: argparse.Namespace) -> Seen:
    """Train once."""
    words = [*asked.overrides, f"schedule.total_steps={asked.steps}", "evaluate=off", f"run.dir={folder}", "monitor.console=quiet"]
    words += ["checkpoint=off"] if kind == "none" else ["checkpoint=steps", f"checkpoint.save_steps={asked.every}", *KINDS[kind]]
    subprocess.run([str(Path(sys.executable).parent / "train"), *words], check=True, stdout=subprocess.DEVNULL)
    records = list(read_steps(folder / "metrics.jsonl"))[WARM:]
    saving = [record for record in records if kind != "none" and record.step % asked.every == 0]
    found = find(folder).complete
    return Seen(
        steps=[record.step_time for record in records if record not in saving],
        stalls=[record.checkpoint_time for record in saving],
        wholes=[_whole(records)],
        size=sum(path.stat().st_size for path in found[-1].files) if found else 0,
    )


def _whole(records: list[StepRecord]) -> float:
    return sum(record.step_time for record in records)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("overrides", nargs="*", default=MEDIUM)
    asked = parser.parse_args()
    seen = {kind: Seen() for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="save-cost-") as place:
        for number in range(asked.rounds):
            for kind, all_of in seen.items():
                folder = Path(place) / f"{kind}_{number}"
                one = run(folder, kind, asked)
                all_of.steps += one.steps
                all_of.stalls += one.stalls
                all_of.wholes += one.wholes
                all_of.size = max(all_of.size, one.size)
                shutil.rmtree(folder)
    base = statistics.median(seen["none"].wholes)
    print(f"a checkpoint every {asked.every} of {asked.steps} steps, {max(each.size for each in seen.values()) / 2**20:.1f} MiB each")
    print(f"{'saving':<14}{'step':>10}{'stall':>10}{'of a step':>11}{'all steps':>11}{'over none':>11}")
    for kind, each in seen.items():
        step, stall = statistics.median(each.steps), statistics.median(each.stalls) if each.stalls else 0.0
        whole = statistics.median(each.wholes)
        print(f"{kind:<14}{1e3 * step:>7.0f} ms{1e3 * stall:>7.0f} ms{stall / step:>10.0%}{whole:>9.2f} s{whole / base:>11.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
