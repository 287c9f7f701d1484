"""`train` for real: on CPU, stand-alone and through msrun, to its end, interrupted, resumed, diverging."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindrecipe.checkpoints.find import find
from mindrecipe.judge.diagnosis import diagnose
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.record import StepRecord, read_steps

pytestmark = pytest.mark.e2e

TRAIN = str(Path(sys.executable).parent / "train")
#: compiled in a third of the time
THIN = ("+model=llama2_tiny", "model.num_layers=1")
TWO = ("+model=qwen3_tiny", "model.num_layers=1", "parallel=data", "launch.workers=2")
FILES = {"config.yaml", "overrides.yaml", "mindformers.yaml", "lock.json", "metrics.jsonl", "summary.json", "logs", "checkpoint"}


def train(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TRAIN, *words], cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def run_dirs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("runs/*/*/lock.json"))


def losses(run: Path) -> dict[int, float]:
    return {record.step: record.loss for record in records(run)}


def records(run: Path) -> list[StepRecord]:
    return list(read_steps(run / "metrics.jsonl"))


def summary(run: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((run / "summary.json").read_text())
    return loaded


def test_a_llama_learns_python(tmp_path: Path) -> None:
    """The main job: the default text, to the end, judged on files it has not seen."""
    done = train(tmp_path, "+model=llama2_tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}, "mindformers' droppings belong into the run directory"
    (run,) = run_dirs(tmp_path)
    assert {path.name for path in run.iterdir()} >= FILES
    steps = records(run)
    assert [record.step for record in steps] == list(range(1, 301))
    for record in steps:
        assert record.step_time == pytest.approx(record.data_time + record.compute_time + record.other_time, rel=0.02, abs=2e-3)
    told = summary(run)
    assert told["state"] == "completed"
    assert isinstance(told["heldout_loss"], float) and isinstance(told["unigram_entropy"], float)
    assert told["heldout_loss"] < told["unigram_entropy"] - 0.5
    assert list((run / "checkpoint").rglob("*_300.ckpt"))


def test_the_mcore_architecture_learns(tmp_path: Path) -> None:
    done = train(tmp_path, "+recipe=qwen3_tiny_cpu", "schedule.total_steps=30", "evaluate.max_batches=4")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = run_dirs(tmp_path)
    assert records(run)[-1].loss < records(run)[0].loss - 0.5
    assert summary(run)["state"] == "completed"


def test_two_ranks_through_msrun(tmp_path: Path) -> None:
    """Of the mcore architecture; of the other one: tests/docs, tests/drill, tests/worker."""
    done = train(tmp_path, *TWO, "schedule.total_steps=6", "evaluate.max_batches=2")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = run_dirs(tmp_path)
    assert len(records(run)) == 6
    assert {path.name for path in (run / "logs").glob("rank_?.log")} == {"rank_0.log", "rank_1.log"}
    assert len(list((run / "heldout").glob("rank_*.json"))) == 2


def test_a_cluster_recipe_says_what_is_missing_and_writes_nothing(tmp_path: Path) -> None:
    done = train(tmp_path, "+model=llama2_7b", "parallel=semi_auto", "amp=O2")
    assert done.returncode == 2
    assert "8 x Ascend 910B" in done.stderr and "mindrecipe export" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    words = [*THIN, "schedule.total_steps=30", "checkpoint=steps", "checkpoint.save_steps=4", "evaluate=off"]
    straight = tmp_path / "straight"
    straight.mkdir()
    assert train(straight, *words).returncode == 0
    broken = tmp_path / "broken"
    broken.mkdir()
    process = subprocess.Popen([TRAIN, *words], cwd=broken, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 300
    while not any(find(run).complete for run in run_dirs(broken)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 130, said
    (first,) = run_dirs(broken)
    assert summary(first)["state"] == "interrupted"
    hint = re.search(r"train \S.*checkpoint\.resume=\S+", said)
    assert hint, said
    resumed = train(broken, *shlex.split(hint[0])[1:])
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    second = next(run for run in run_dirs(broken) if run != first)
    expected = losses(run_dirs(straight)[0])
    went_on = losses(second)
    assert min(went_on) % 4 == 1 and 5 <= min(went_on) < 30 and max(went_on) == 30
    assert went_on == {step: expected[step] for step in went_on}


def test_a_run_that_dies_while_it_is_evaluated_is_evaluated_by_the_same_command_again(tmp_path: Path) -> None:
    words = [*THIN, "model.seq_length=64", "schedule.total_steps=4", "evaluate.max_batches=2", "run.dir=run", "checkpoint.resume=auto"]
    run = tmp_path / "run"
    process = subprocess.Popen([TRAIN, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events = run / "logs/rank_0.events.jsonl"
    deadline = time.monotonic() + 300
    while not (events.exists() and '"evaluate"' in events.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (run / "summary.json").exists()
    done = train(tmp_path, *words)
    assert done.returncode == 0 and "only its evaluation is left" in done.stdout, done.stdout + done.stderr
    told = summary(run)
    assert (told["state"], told["steps"]) == ("completed", 4) and isinstance(told["heldout_loss"], float)
    assert told["tokens_per_s"] > 0 and told["peak_memory_bytes"] > 0, "of the steps that the first start has made"
    assert len(losses(run)) == 4 and [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_that_diverges_is_not_a_success(tmp_path: Path) -> None:
    done = train(
        tmp_path,
        *THIN,
        "optimizer.learning_rate=1e20",
        "optimizer.grad_clip=null",
        "schedule=constant",
        "schedule.total_steps=20",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (run,) = run_dirs(tmp_path)
    assert summary(run)["state"] == "diverged"
    assert "Traceback" not in done.stdout + done.stderr
    lost = diagnose(Recorded(run))[0]
    assert lost.cause == "loss_not_a_number" and f"from step {summary(run)['first_bad_step']} on" in lost.what
    assert "optimizer.grad_clip=1" in lost.mend


def test_each_job_of_a_sweep_has_its_own_run(tmp_path: Path) -> None:
    short = ["schedule.total_steps=3", "evaluate=off", "checkpoint=off", "monitor=quiet"]
    done = train(tmp_path, *THIN, "optimizer.learning_rate=1e-3,1e-4", *short, "--multirun")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(run_dirs(tmp_path)) == 2
