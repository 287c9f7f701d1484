"""A run that goes on from a checkpoint gives the losses of the run that was not stopped, bit for bit, whatever its learning rate does.

Of each shape one: a rise, cycles, phases (a half cosine is the other drills'). That no schedule remembers anything but the step is
asserted of all in tests/lower/test_mindformers.py, that its settings are the same after a resume in tests/test_resume.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_run import SMALL

from mindrecipe.measure.record import read_steps

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
SCHEDULES = ["constant_cooldown", "cosine_restarts", "wsd"]


def train(folder: Path, *words: str) -> dict[int, float]:
    """The losses of a run in ``folder``, by step."""
    line = [str(Path(sys.executable).parent / "train"), *SMALL, *words, "evaluate=off", f"run.dir={folder}"]
    done = subprocess.run(line, cwd=folder.parent, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {record.step: record.loss for record in read_steps(folder / "metrics.jsonl")}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule(tmp_path: Path, schedule: str) -> None:
    """Resumed halfway; what kills a run has no part in its learning rate."""
    phases = {"wsd": ["schedule.warmup_steps=2", "schedule.decay_steps=3"]}
    words = [f"schedule={schedule}", *phases.get(schedule, []), "schedule.total_steps=12", "checkpoint=steps", "checkpoint.save_steps=6"]
    straight = train(tmp_path / "straight", *words)
    (halfway,) = (tmp_path / "straight/checkpoint/rank_0").glob("*_6.ckpt")
    resumed = train(tmp_path / "resumed", *words, f"checkpoint.resume='{halfway}'")
    assert list(straight) == list(range(1, 13)) and resumed == {step: straight[step] for step in range(7, 13)}


def test_with_another_batch_size_the_rows_that_follow_are_read(tmp_path: Path) -> None:
    """Two batches of two rows are one of four: at weights that stand still their losses have its mean, and say which rows they are of."""
    words = ["schedule=constant", "optimizer.learning_rate=1e-30", "checkpoint=steps", "checkpoint.save_steps=3"]
    whole = train(tmp_path / "whole", *words, "dataset.batch_size=4", "schedule.total_steps=6")
    (halfway,) = (tmp_path / "whole/checkpoint/rank_0").glob("*_3.ckpt")
    more = ["dataset.batch_size=2", "schedule.total_steps=12", "checkpoint.strict=false", f"checkpoint.resume='{halfway}'"]
    halves = train(tmp_path / "halves", *words, *more)
    assert list(halves) == list(range(7, 13))
    means = {step: (halves[2 * step - 1] + halves[2 * step]) / 2 for step in (4, 5, 6)}
    assert means == {step: pytest.approx(whole[step], abs=2e-5) for step in means}
    assert min(abs(one - other) for one in whole.values() for other in whole.values() if one is not other) > 1e-4, "losses tell rows apart"
