"""Evaluation in a fresh process: the same loss as the run's own, earlier checkpoints, faults before anything is started."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import make, steps
from trainings import run

from mindrecipe.checkpoints.find import Checkpoint
from mindrecipe.errors import UserError
from mindrecipe.judge import evaluate as judging
from mindrecipe.judge.recorded import EVALUATIONS, Recorded


@pytest.mark.e2e
def test_the_same_loss_as_at_the_end_of_training(healthy: Recorded, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("evaluate", str(healthy.path), "--passes", "12", "--max-batches", "8", "--json")
    told = json.loads(done.out)
    assert done.code == 0 and told["step"] == 60 and told["passes"] == 12 and told["tokens"] == healthy.summary["heldout_tokens"]
    assert told["loss"] == pytest.approx(healthy.summary["heldout_loss"], abs=1e-6)
    assert 0 < told["latency"]["p50"] <= told["latency"]["p95"] <= told["latency"]["p99"] and told["tokens_per_s"] > 0
    assert told["memory_bytes"] > 2e8 and told["cores"] > 0 and told["compile_time"] > 0
    assert Recorded(healthy.path).evaluation == told and judging.Evaluation(**told).step == 60


@pytest.mark.e2e
def test_an_earlier_checkpoint_on_other_data(healthy: Recorded, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("def function(self):\n    return self.value\n\n" * 800)
    words = ["dataset=text", f"dataset.files=[{tmp_path / 'text.txt'}]", "dataset.heldout_fraction=0.5"]
    found = judging.evaluate(healthy, step=30, overrides=words, passes=2, max_batches=2)
    assert found.step == 30 and found.data != healthy.lock["dataset_hash"]
    own = (healthy.derived["dataset"] or {})["tokenizer"]
    assert own and Path(own).is_file() and found.loss > 0


@pytest.mark.e2e
def test_the_mcore_architecture(tmp_path: Path) -> None:
    trained = run(
        tmp_path, "model=qwen3_tiny", "model.num_layers=1", "evaluate=at_end", "evaluate.max_batches=2", "checkpoint=final", steps=5
    )
    found = judging.evaluate(trained, passes=2, max_batches=2)
    assert found.loss == pytest.approx(trained.summary["heldout_loss"], abs=1e-5)


def test_faults_are_told_before_anything_starts(here: Path, mindrecipe: Callable[..., Any]) -> None:
    path = make(here / "runs" / "tiny" / "aaa", steps(5))
    assert "has no complete checkpoint" in mindrecipe("evaluate", "last").err
    make(here / "runs" / "tiny" / "bbb", steps(5), derived={"model_parallel": 2})
    assert "model_parallel=2" in mindrecipe("evaluate", "bbb").err
    assert mindrecipe("evaluate", "nobody").code == 2
    assert not (path / EVALUATIONS).exists()


def test_a_thousand_passes_and_figures_that_are_json(here: Path, monkeypatch: pytest.MonkeyPatch, mindrecipe: Callable[..., Any]) -> None:
    """A diverged run evaluates to NaN, which JSON has not; without --passes a thousand are timed."""
    path = make(here / "runs/tiny/aaa", steps(5))
    asked: list[dict[str, Any]] = []

    def work(run: Recorded, folder: Path) -> dict[str, Any]:
        asked.append(json.loads((folder / "request.json").read_text()))
        seconds = {"build": 1.0, "data": 1.0, "compile": 1.0, "pass": 1.0}
        figures = {"tokens": 8, "batches": 1, "batch_size": 1, "tokens_per_s": 8.0, "cores": 1.0, "others": 0.0, "memory_bytes": 2**30}
        return {"loss": math.nan, "perplexity": math.inf, "latencies": [0.1], "seconds": seconds, **figures}

    monkeypatch.setattr(judging, "_work", work)
    monkeypatch.setattr(judging, "_data", lambda *ignored: (["a"], "abc"))
    monkeypatch.setattr(judging, "_checkpoint", lambda *ignored: Checkpoint(5, path, None, (path / "a.ckpt",)))

    def no_json(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    told = json.loads(mindrecipe("evaluate", "aaa", "--json").out, parse_constant=no_json)
    assert asked[0]["passes"] == 1000 and asked[0]["max_batches"] is None and told["loss"] == "nan" and told["perplexity"] == "inf"
    (file,) = (path / EVALUATIONS).glob("*/evaluation.json")
    assert json.loads(file.read_text(), parse_constant=no_json) == told
    read = Recorded(path).evaluation
    assert math.isnan(read["loss"]) and read["perplexity"] == math.inf and read["latency"]["p50"] == 0.1


def test_only_the_data_can_be_another(here: Path) -> None:
    recorded = Recorded(make(here / "run", steps(5)))
    with pytest.raises(UserError, match="only its data can be another"):
        judging._data(recorded, ["optimizer.learning_rate=1"], print)
    with pytest.raises(UserError, match="part of a data set"):
        judging._data(recorded, ["dataset.files=[b.txt]"], print)
    with pytest.raises(UserError, match="no held-out data"):
        judging._data(recorded, [], print)
