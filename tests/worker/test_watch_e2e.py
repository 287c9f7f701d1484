"""The watchers against faults that are really injected: a learning rate that jumps, noise in the data, a batch whose loss is infinite, a loss
scale beyond what float16 holds, a rank that sleeps, a disk that fills up.
"""

from __future__ import annotations

import json
import math
import random
import re
import signal
import string
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindrecipe.checkpoints.find import find
from mindrecipe.drill import drill
from mindrecipe.drill.small_disk import NoDisk, SmallDisk
from mindrecipe.fit import facts
from mindrecipe.measure.record import StepRecord, read_steps

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
TRAIN = str(Path(sys.executable).parent / "train")
SMALL = ["+model=llama2_tiny", "model.num_layers=1", "model.seq_length=64", "evaluate=off", "schedule.total_steps=26", "run.dir=run"]
FAULTS = '''
import os, time
import mindspore as ms
from mindformers.core.callback.callback import MFLossMonitor
from mindformers.models.llama import llama
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore import ops
from mindspore.nn.learning_rate_schedule import LearningRateSchedule

@MindFormerRegister.register(MindFormerModuleType.LR)
class JumpLR(LearningRateSchedule):
    """1e-3, and 30 at one step."""
    def __init__(self, learning_rate, jump_at, **rest):
        super().__init__()
        self.rate, self.at = learning_rate, jump_at
    def construct(self, global_step):
        jump = ops.cast(ops.cast(global_step, ms.float32) == self.at, ms.float32)
        return self.rate * (1.0 + 30000.0 * jump)

class Poisoned(llama.CrossEntropyLoss):
    """Infinite of a batch that has a tilde (id 129)."""
    def construct(self, logits, label, input_mask):
        loss = super().construct(logits, label, input_mask)
        return loss / ops.cast(ops.ReduceAll()(label != 129), ms.float32)

if "POISONED" in os.environ:
    llama.CrossEntropyLoss = Poisoned

if os.environ.get("SLEEPY") == os.environ.get("RANK_ID", "0"):
    sooner = MFLossMonitor.on_train_step_end
    def later(self, context):
        time.sleep(0.2)
        sooner(self, context)
    MFLossMonitor.on_train_step_end = later
'''
JUMP = [
    "run.imports=[faults]",
    "schedule.type=JumpLR",
    "schedule.extra.jump_at=18",
    "schedule.warmup_steps=0",
    "optimizer.learning_rate=1e-3",
]


def train(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "faults.py").write_text(FAULTS)
    return subprocess.run([TRAIN, *SMALL, *words], cwd=folder, capture_output=True, text=True, timeout=500, check=False)


def poison_in(folder: Path) -> list[str]:
    """A text that is learned at once, read in its order: the loss of step 12 is infinite, step 21 reads noise."""
    dice = random.Random(1)
    lines = ["the same words again and again, the same words again and again, and so on"] * 120
    lines[40] = "~" * 70
    lines[70:74] = ["".join(dice.choice(string.ascii_letters) for _ in range(70)) for _ in range(4)]
    (folder / "text.txt").write_text("\n".join(lines))
    words = ["dataset=text", f"dataset.files=[{folder / 'text.txt'}]", "dataset.heldout_fraction=0", "dataset.tokenizer=bytes"]
    words += ["dataset.shuffle=false", "dataset.batch_size=4", "model.vocab_size=512", "optimizer.learning_rate=1e-2"]
    words += ["schedule.warmup_steps=0", "watch.window=10", "run.imports=[faults]", "launch.env.POISONED=1"]
    return [*words, "watch.loss_nonfinite=skip"]


def steps(folder: Path) -> dict[int, StepRecord]:
    return {record.step: record for record in read_steps(folder / "run/metrics.jsonl")}


def attempts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run/attempts.jsonl").read_text().splitlines()]


def test_spikes_are_warned_of_and_an_infinite_loss_is_skipped(tmp_path: Path) -> None:
    done = train(tmp_path, *poison_in(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [step for step, record in steps(tmp_path).items() if not math.isfinite(record.loss)] == [12]
    (saved,) = find(tmp_path / "run").complete
    assert saved.step == 26 and facts(saved)["global_step"] == 25, "step 12 has made no update, every other has"
    notes = json.loads((tmp_path / "run/summary.json").read_text())["notes"]
    for what in ("loss", "gradient norm"):
        assert re.search(rf"warning: the {what} jumps to \S+ at step 21,", done.stdout), done.stdout
        assert any(note.startswith(f"the {what} jumps to") for note in notes)


@pytest.mark.parametrize(("action", "began"), [("stop", [0]), ("roll_back", [0, 18])])
def test_a_spike_of_the_gradients_ends_it(tmp_path: Path, action: str, began: list[int]) -> None:
    """It is rolled back to before the noise, meets it again, and ends: noise in the data is no fault of the machine."""
    more = ["checkpoint=steps", "checkpoint.save_steps=6", "launch.max_restarts=5", "launch.restart_backoff=0"]
    done = train(tmp_path, *poison_in(tmp_path), *more, f"watch.grad_spike={action}", "watch.loss_spike=off")
    assert done.returncode == 1 and f"(watch.grad_spike={action})" in done.stderr, done.stdout + done.stderr
    assert [attempt["from_step"] for attempt in attempts(tmp_path)] == began
    assert max(steps(tmp_path)) == 21
    assert ("the same end at the same step 21" in done.stdout) is (action == "roll_back")


@pytest.mark.parametrize(("action", "tries"), [("stop", 1), ("roll_back", 2)])
def test_gradients_that_overflow_without_end(tmp_path: Path, action: str, tries: int) -> None:
    """A loss scale that float16 can't hold, and that does not fall: the losses are fine, no update is ever made."""
    words = ["amp=O2", "amp.loss_scale=fixed", "amp.loss_scale_value=1e30", "watch.overflow_steps=2"]
    done = train(tmp_path, *words, "launch.max_restarts=5", "launch.restart_backoff=0", f"watch.overflow_streak={action}")
    assert done.returncode == 1 and "no update since step 1: the gradients overflow at every step" in done.stderr, done.stdout + done.stderr
    assert [(record.overflow, math.isfinite(record.loss)) for record in steps(tmp_path).values()] == [(True, True)] * 3
    assert len(attempts(tmp_path)) == tries
    assert ("the same end at the same step" in done.stdout) is (action == "roll_back")


def test_a_spike_that_stops_the_run(tmp_path: Path) -> None:
    done = train(tmp_path, *JUMP, "watch.loss_spike=stop", "launch.max_restarts=3")
    assert done.returncode == 1 and "watch.loss_spike=stop" in done.stderr
    assert len((tmp_path / "run/attempts.jsonl").read_text().splitlines()) == 1, "a restart is not what was asked for"


def test_a_spike_that_rolls_back_comes_again_and_ends_it(tmp_path: Path) -> None:
    more = ["checkpoint=steps", "checkpoint.save_steps=5", "launch.max_restarts=5", "launch.restart_backoff=0"]
    done = train(tmp_path, *JUMP, *more, "watch.loss_spike=roll_back")
    assert done.returncode == 1, done.stdout
    attempts = [json.loads(line) for line in (tmp_path / "run/attempts.jsonl").read_text().splitlines()]
    assert [attempt["from_step"] for attempt in attempts] == [0, 15]
    assert [each.step for each in find(tmp_path / "run").complete] == [5, 10, 15], "the weights of the spike are no checkpoint"
    warming = [record.step for record in read_steps(tmp_path / "run/metrics.jsonl") if record.warm_up]
    assert warming == [1, 2, 16, 17], "the second attempt compiles and warms up too"
    assert "the same end at the same step 20" in done.stdout


@pytest.mark.parametrize("action", ["warn", "stop"])
def test_a_rank_that_sleeps_is_named(tmp_path: Path, action: str) -> None:
    words = ["launch.env.SLEEPY=1", "parallel=data", "launch.workers=2", "watch.slow_rank_share=0.05", "launch.max_restarts=3"]
    done = train(tmp_path, "run.imports=[faults]", *words, f"watch.slow_rank={action}")
    said = r"rank 1 keeps the others waiting for \S+ s of a step's"
    if action == "warn":
        assert done.returncode == 0 and re.search(f"warning: {said}", done.stdout), done.stdout + done.stderr
    else:
        assert done.returncode == 1 and re.search(said + r" \S+ s \(watch.slow_rank=stop\)", done.stderr), done.stdout + done.stderr
        assert len(attempts(tmp_path)) == 1, "a restart is not what was asked for"


def test_a_loss_that_is_no_number_is_tried_once_more(tmp_path: Path) -> None:
    words = [
        "optimizer.learning_rate=1e20",
        "optimizer.grad_clip=null",
        "schedule=constant",
        "launch.max_restarts=5",
        "launch.restart_backoff=0",
    ]
    done = train(tmp_path, *words)
    assert done.returncode == 1
    assert len((tmp_path / "run/attempts.jsonl").read_text().splitlines()) == 2
    assert "the same end at the same step" in done.stdout


def test_a_disk_that_is_nearly_full_stops_it(tmp_path: Path) -> None:
    done = train(tmp_path, "watch.disk=stop", "watch.disk_gb=1000000")
    assert done.returncode == 1 and "fewer than watch.disk_gb=1e+06" in done.stderr


def come(condition: Callable[[], bool], process: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + 400
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, said.read_text()
        time.sleep(0.05)


@pytest.mark.parametrize("action", ["warn", "stop"])
def test_a_disk_that_fills_up_under_the_run(tmp_path: Path, action: str) -> None:
    """With warn it trains on, until it is asked to stop; with stop it ends before the disk is full, and its summary still has room."""
    said, place = tmp_path / "said.txt", tmp_path / "disk"
    words = [*SMALL[:-2], "schedule.total_steps=100000", f"run.dir={place / 'run'}", f"watch.disk={action}", "watch.disk_gb=1"]
    warning = f"GiB are free on the disk of {place / 'run'}, fewer than watch.disk_gb=1"
    try:
        with SmallDisk(place) as disk, said.open("wb") as out:
            process = subprocess.Popen([TRAIN, *words], cwd=tmp_path, stdout=out, stderr=out)
            try:
                come((place / "run/attempts.jsonl").exists, process, said)  # it has looked for room before it starts anything
                disk.fill(leaving=64 << 20)
                if action == "warn":
                    come(lambda: f"warning: 0.06 {warning}" in said.read_text(), process, said)
                    metrics = place / "run/metrics.jsonl"
                    seen = sum(1 for _ in read_steps(metrics))
                    come(lambda: sum(1 for _ in read_steps(metrics)) > seen, process, said)
                    process.send_signal(signal.SIGTERM)
                code = process.wait(400)
            finally:
                process.kill()
                process.wait()
    except NoDisk as why:
        pytest.skip(f"a file system of its own needs the right to mount: {why}")
    told = said.read_text()
    summary = json.loads((place / "run/summary.json").read_text())
    assert warning in told and code == (143 if action == "warn" else 1), told
    assert summary["state"] == ("interrupted" if action == "warn" else "failed")


def test_updates_beyond_the_limit_are_not_made(tmp_path: Path) -> None:
    done = train(tmp_path, "watch.grad_spike=skip", "watch.grad_norm_limit=1e-6", "schedule.total_steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the update of step") >= 4
    (saved,) = find(tmp_path / "run").complete
    assert facts(saved)["global_step"] == 0 and saved.step == 4, "the optimizer has made no step"


def rubbish_in(folder: Path) -> list[str]:
    """A text that is learned at once, with a few lines of noise: a batch that has some of them is a spike."""
    dice = random.Random(1)
    noise = ["".join(dice.choice(string.ascii_letters) for _ in range(70)) for _ in range(24)]
    lines = ["the same words again and again, the same words again and again, and so on"] * 900
    for number, line in enumerate(noise):
        lines[200 + number] = line
    (folder / "text.txt").write_text("\n".join(lines))
    words = ["dataset=text", f"dataset.files=[{folder / 'text.txt'}]", "dataset.heldout_fraction=0", "dataset.tokenizer=bytes"]
    words += ["model.vocab_size=512", "dataset.batch_size=4", "optimizer.learning_rate=1e-2", "schedule.warmup_steps=0"]
    return [*words, "schedule.total_steps=200", "watch.window=10", "watch.loss_spike=skip"]


@pytest.mark.parametrize("more", [[], ["parallel=data", "launch.workers=2", "dataset.batch_size=2"]], ids=["one_rank", "two_ranks"])
def test_updates_of_spikes_are_not_made(tmp_path: Path, more: list[str]) -> None:
    """As many steps of the optimizer are missing as were told."""
    done = train(tmp_path, *rubbish_in(tmp_path), *more)
    assert done.returncode == 0, done.stdout + done.stderr
    notes = [note for note in json.loads((tmp_path / "run/summary.json").read_text())["notes"] if "was skipped: loss" in note]
    skipped = [int(note.split("step ")[1].split()[0]) for note in notes]
    assert skipped and len(skipped) < 60
    (saved,) = find(tmp_path / "run").complete
    assert saved.step == 200 and facts(saved)["global_step"] == 200 - len(skipped)


def test_skipping_is_repeated_by_a_run_that_goes_on(tmp_path: Path) -> None:
    """The limit is of the steps before the checkpoint, too: killed and resumed, the same updates are left out."""
    straight, broken = drill(
        [*SMALL[:3], *rubbish_in(tmp_path), "evaluate=off"], tmp_path / "runs", faults=["launcher"], steps=120, every=30, seed=5
    )
    assert straight.identical, straight
    assert broken.identical and "was skipped: loss" in (tmp_path / "runs/straight.txt").read_text(), broken
