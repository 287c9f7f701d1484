"""Every cause is made to happen in a real run, and named; a healthy run has none."""

from __future__ import annotations

import math
import os
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
from trainings import run

from mindrecipe.judge.diagnosis import Diagnosis, diagnose, oscillation
from mindrecipe.judge.recorded import Recorded

pytestmark = pytest.mark.e2e
#: what the machine that the tests run on can make of any run, and how; all else is of the run
OF_THE_MACHINE = {
    "noisy_machine": "it is said of the neighbours, and of nothing else",
    "drift": "neighbours that come in the middle make the same work slower",
    "stalls": "a machine, a disk or a network that is held for 5 s",
    "checkpoint_stalls": "a disk that others write to; how often was saved is the run's own, and is looked at",
}
#: shares of the time: threads that fetch rows wait longer on a machine that others use
OF_WAITING = {"data_bound", "host_bottleneck"}
#: keeps compiling and computing short, so that what is made to be slow is what takes the time
THIN = ("model.num_layers=1",)


def named(found: Sequence[Diagnosis]) -> list[str]:
    """The causes that lie in the run; where the machine was not its own, waiting may be the neighbours' doing."""
    shared = any(each.cause == "noisy_machine" for each in found)
    return [each.cause for each in found if each.cause not in OF_THE_MACHINE and not (shared and each.cause in OF_WAITING)]


def of(found: Sequence[Diagnosis], cause: str) -> Diagnosis:
    (only,) = [each for each in found if each.cause == cause]
    return only


def test_a_healthy_run(healthy: Recorded) -> None:
    found = diagnose(healthy)
    assert named(found) == []
    for stalls in (each for each in found if each.cause == "checkpoint_stalls"):
        assert "2 checkpoints, " in stalls.evidence, "it saves twice, however long that takes"
    spread = statistics.stdev(oscillation.detrended(healthy.losses[30:]))
    assert 0 < spread < 0.5 * oscillation.ROWS / math.sqrt(8), "batches differ by far less than what is told as swinging"


def test_memory_of_a_real_run_against_a_smaller_host(healthy: Recorded) -> None:
    """What the healthy run has really used, on hosts of which it would be 95 % and 85 %."""
    peak = healthy.summary["peak_memory_bytes"]
    for share, expected in ((0.95, ["memory_near_limit"]), (0.85, [])):
        same = Recorded(healthy.path)
        same.__dict__["lock"] = {**healthy.lock, "machine": {**healthy.lock["machine"], "memory_bytes": int(peak / share)}}
        assert named(diagnose(same)) == expected


def test_a_slow_data_set(tmp_path: Path) -> None:
    """And what it says to try is taken by MindSpore, on however few cores."""
    slow = ("run.imports=[ill_parts]", "native.train_dataset.data_loader.type=SlowMindDataset", "dataset.batch_size=1", *THIN)
    bound = of(diagnose(run(tmp_path, *slow, steps=28)), "data_bound")
    mended = bound.mend.partition(";")[0].split()
    assert "dataset.prefetch_size=4" in mended and len(mended) == (1 if (os.cpu_count() or 1) <= 2 else 2)
    (tmp_path / "mended").mkdir()
    assert run(tmp_path / "mended", *slow, *mended, steps=2).summary["steps"] == 2


def test_a_rank_that_sleeps_and_works_for_others(tmp_path: Path) -> None:
    ill = ("run.imports=[ill_parts]", "native.callbacks.SleepyRank={}", "parallel=data", "launch.workers=2")
    found = diagnose(run(tmp_path, *ill, *THIN, steps=24))
    skewed = of(found, "compute_skew")
    assert skewed.what.startswith("rank 1 computes longer") and "rank_1.steps.jsonl" in skewed.evidence
    straggler = of(found, "straggler")
    assert straggler.what.startswith("rank 1 is held up by callbacks") and "rank_1.steps.jsonl" in straggler.evidence


def test_a_learning_rate_that_is_too_high(tmp_path: Path) -> None:
    found = diagnose(run(tmp_path, *THIN, "optimizer.learning_rate=1.0", "schedule.warmup_ratio=0.3", "schedule=constant", steps=60))
    assert named(found) == ["loss_rises", "loss_oscillates"]
    for each in found[:2]:
        assert "optimizer.learning_rate=0.333333" in each.mend


def test_updates_that_are_too_large(tmp_path: Path) -> None:
    """A loss that jumps three times, and takes its time to fall."""
    large = ("run.imports=[ill_parts]", "native.callbacks.TooLarge={steps: [60, 80, 100], times: [18, 25, 32]}")
    found = diagnose(run(tmp_path, *large, *THIN, "schedule=constant", steps=120))
    assert named(found) == ["loss_spikes"] and "optimizer.learning_rate=0.001" in of(found, "loss_spikes").mend


def test_shapes_that_change(tmp_path: Path) -> None:
    ragged = ("native.train_dataset.data_loader.type=RaggedMindDataset", "dataset.drop_remainder=false", "native.runner_config.epochs=4")
    again = of(diagnose(run(tmp_path, "run.imports=[ill_parts]", *ragged, *THIN, steps=26)), "recompilation")
    assert "1 steps compiled" in again.what and "dataset.drop_remainder=true" in again.mend


def test_dirty_data(tmp_path: Path) -> None:
    """Text of few words, with three stretches of noise as long as a batch."""
    draw = random.Random(5)
    words = [f"word{number} " for number in range(40)]
    clean = ["".join(draw.choice(words) for _ in range(150)) for _ in range(160)]
    for place in (60, 80, 100):
        clean[place] = "".join(chr(draw.randrange(33, 127)) for _ in range(1000))
    (tmp_path / "text.txt").write_text("".join(clean))
    (tmp_path / "heldout.txt").write_text("".join(clean[:10]))
    text = ("dataset=text", "dataset.files=[text.txt]", "dataset.heldout_files=[heldout.txt]", "dataset.tokenizer=bytes")
    found = diagnose(run(tmp_path, *text, "model.vocab_size=320", "dataset.shuffle=false", steps=120))
    assert named(found) == ["dirty_data"] and "read the rows of those steps" in of(found, "dirty_data").mend


def test_a_tight_memory_limit(tmp_path: Path) -> None:
    found = diagnose(run(tmp_path, "model.hidden_size=1024", "dataset.batch_size=64", fails=True, memory=5 * 2**30))
    assert named(found) == ["out_of_memory"] and "dataset.batch_size" in found[0].mend


def test_a_run_that_is_ill_in_many_ways(tmp_path: Path) -> None:
    """No update is made, for gradients overflow; it is saved after every step; its host sleeps, stands still, gets slower and has a
    neighbour; the device could do far more; at last it fails."""
    scale = ("amp=O1", "amp.dtype=float16", "amp.loss_scale=fixed", "amp.loss_scale_value=1073741824", "watch.overflow_steps=1000")
    host = ("run.imports=[ill_parts]", "native.callbacks.Hindered={}", "monitor.usage_interval=0.5", "device.peak_tflops=100")
    saved = ("checkpoint=steps", "checkpoint.save_steps=1", "checkpoint.keep=1", "model.seq_length=32", "dataset.batch_size=1")
    found = {each.cause: each for each in diagnose(run(tmp_path, *scale, *host, *saved, *THIN, steps=80, fails=True))}
    assert {
        "failed", "overflow_streaks", "loss_flat", "checkpoint_stalls", "host_bottleneck", "stalls", "drift", "noisy_machine", "low_mfu",
    } <= set(found)  # fmt: skip
    assert "ill on purpose" in found["failed"].what and "steps 60" in found["stalls"].evidence
