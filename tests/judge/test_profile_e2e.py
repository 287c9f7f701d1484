"""MindSpore's profiler around steps of real runs: what it writes is summed up, and costs the run's own figures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from trainings import run

from mindrecipe.judge.diagnosis import diagnose
from mindrecipe.judge.profile import first_profile
from worker.test_board import scalars

pytestmark = pytest.mark.e2e
#: kernels of a few microseconds: each is over long before the next one is launched
SMALL = ("model.hidden_size=32", "model.num_heads=2", "model.seq_length=32", "dataset.batch_size=1")


def test_a_profiled_run(tmp_path: Path) -> None:
    """Its window, its marks in metrics.jsonl, what the profiler saw; and the same steps on TensorBoard."""
    asked = ("profile=steps", "profile.start=6", "profile.stop=8", "monitor.tensorboard=true")
    trained = run(tmp_path, *asked, steps=14)
    assert [record.step for record in trained.steps if record.profiled] == [5, 6, 7, 8, 9]
    assert [record.step for record in trained.timed] == [3, 4, *range(10, 15)]
    slowest = max(record.step_time for record in trained.timed)
    assert trained.summary["step_time"]["p99"] <= slowest
    found = first_profile(trained)
    assert found is not None and len(found.steps) == 3 and found.executions > 1000
    assert sum(each.share for each in found.operators) == pytest.approx(1)
    assert "MatMul" in [each.kind for each in found.operators[:5]], "which comes first is a matter of what else the machine does"
    assert {"layers/attention", "layers/feed_forward", "optimizer", "backward: layers/attention"} <= set(found.scopes)
    (whole,) = {round(sum(found.scopes.values()), 6)}
    assert whole == 1 and found.memory is not None and 10 * 2**20 < found.memory.allocated < 2**30
    computed = {record.step: record.compute_time for record in trained.steps}
    for step, number in zip(found.steps, (6, 7, 8), strict=True):
        assert 0.01 * computed[number] < step.seconds < computed[number], "how much of it the machine kept for others is its matter"
    assert "launch_bound" not in [each.cause for each in diagnose(trained)]
    told = scalars(trained.path / "tensorboard")
    assert told["correctness/loss"] == pytest.approx({record.step: record.loss for record in trained.steps})
    assert told["time/compute_time"] == pytest.approx(computed) and "speed/samples_per_s" in told


def test_kernels_too_small_for_their_launches(tmp_path: Path) -> None:
    found = diagnose(run(tmp_path, *SMALL, "profile=steps", "profile.start=10", "profile.stop=19", steps=20))
    (bound,) = [each for each in found if each.cause == "launch_bound"]
    assert "dataset.batch_size=2" in bound.mend and "profile/rank_0/" in bound.evidence
