"""A job of a sweep: what it returns is what a sweeper such as Optuna minimises."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from judge.runs import make, steps
from mindrecipe.cli import train
from mindrecipe.judge.recorded import Recorded
from mindrecipe.runfiles import SWEEP_JOB


def test_a_job_returns_the_loss_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path / "run", steps(30))

    def tell(more: dict[str, str]) -> None:
        Path(more[SWEEP_JOB]).write_text(str(run))

    monkeypatch.setattr(train, "_train_in_process", tell)
    assert train._job(None) == Recorded(run).summary["final_loss"]
    monkeypatch.setattr(train, "_train_in_process", lambda more: None)
    assert math.isnan(train._job(None)), "launch.dry_run makes no run"


def test_the_held_out_loss_comes_first_and_a_run_without_any_has_none(tmp_path: Path) -> None:
    run = make(tmp_path / "run", steps(30))
    summary = run / "summary.json"
    summary.write_text(summary.read_text().replace('"heldout_loss": null', '"heldout_loss": 3.5'))
    assert train.objective(run) == 3.5
    summary.unlink()
    assert math.isnan(train.objective(run))


def test_jobs_side_by_side(tmp_path: Path) -> None:
    """Another launcher of Hydra's: its jobs are pickled, run in processes of its own, and the worst exit code is the sweep's."""
    train_program = Path(sys.executable).parent / "train"

    def sweep(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(train_program), "+model=llama2_tiny", "launch.dry_run=true", *words, "hydra/launcher=joblib", "--multirun"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    both = sweep("schedule.total_steps=8,9")
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("all checks have passed") == 2
    one = sweep("model.num_heads=8,7")
    assert one.returncode == 2 and "[model.heads]" in one.stderr and "Traceback" not in one.stderr
