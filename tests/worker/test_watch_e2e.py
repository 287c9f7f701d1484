"""The watchers against faults that are really injected: a learning rate that jumps, a rank that sleeps, a loss that is no number."""

from __future__ import annotations

import json
import random
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

from mindrecipe.checkpoints.find import find
from mindrecipe.drill import drill
from mindrecipe.fit import facts
from mindrecipe.measure.record import read_steps

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
TRAIN = str(Path(sys.executable).parent / "train")
SMALL = ["+model=llama2_tiny", "model.num_layers=1", "model.seq_length=64", "evaluate=off", "schedule.total_steps=26", "run.dir=run"]
FAULTS = '''
import os, time
import mindspore as ms
from mindformers.core.callback.callback import MFLossMonitor
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

if os.environ.get("SLEEPY") == os.environ.get("RANK_ID", "0"):
    sooner = MFLossMonitor.on_train_step_end
    def later(self, context):
        time.sleep(0.5)
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


def test_a_spike_is_warned_of(tmp_path: Path) -> None:
    done = train(tmp_path, *JUMP, "watch.window=20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning: the loss jumps to" in done.stdout and "at step 20" in done.stdout
    notes = json.loads((tmp_path / "run/summary.json").read_text())["notes"]
    assert any(note.startswith("the loss jumps to") for note in notes)


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


def test_a_rank_that_sleeps_is_named(tmp_path: Path) -> None:
    done = train(tmp_path, "run.imports=[faults]", "launch.env.SLEEPY=1", "parallel=data", "launch.workers=2", "watch.slow_rank_share=0.05")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"warning: rank 1 keeps the others waiting for \S+ s of a step's", done.stdout), done.stdout


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
