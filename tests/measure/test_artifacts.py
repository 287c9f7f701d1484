"""What a run leaves behind is found, and its summary is written whole."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from samples import step

from mindrecipe.measure.artifacts import read_heldout, resumed_step, unigram_entropy, write_summary
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.summary import HeldOut, Session, summarise
from mindrecipe.runfiles import RunFiles

CLOCK = Session(started=0.0, ended=1.0)


def test_held_out_parts_and_entropy(tmp_path: Path) -> None:
    assert read_heldout(tmp_path) == []
    assert unigram_entropy(tmp_path) is None
    (tmp_path / "heldout").mkdir()
    (tmp_path / "heldout/rank_0.json").write_text('{"loss_sum": 3.5, "tokens": 2}')
    (tmp_path / "lock.json").write_text(json.dumps({"derived": {"dataset": {"unigram_entropy": 5.25}}}))
    assert read_heldout(tmp_path) == [HeldOut(loss_sum=3.5, tokens=2)]
    assert unigram_entropy(tmp_path) == 5.25
    (tmp_path / "lock.json").write_text(json.dumps({"derived": {"dataset": None}}))
    assert unigram_entropy(tmp_path) is None


def test_the_step_a_run_goes_on_from(tmp_path: Path) -> None:
    assert resumed_step(tmp_path) == 0
    for resume, step_ in ((None, 0), ({"step": 32}, 32)):
        (tmp_path / "lock.json").write_text(json.dumps({"derived": {"resume": resume}}))
        assert resumed_step(tmp_path) == step_


def test_the_summary_is_strict_json_even_of_nan(tmp_path: Path) -> None:
    path = RunFiles(path=tmp_path).summary()
    write_summary(path, summarise(Outcome(state="diverged", exit_code=1), [step(1, loss=math.nan)], session=CLOCK))

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    raw = json.loads(path.read_text(), parse_constant=refuse)
    assert (raw["state"], raw["final_loss"], raw["first_bad_step"]) == ("diverged", "nan", 1)
    assert [item.name for item in tmp_path.iterdir()] == ["summary.json"]


def test_a_summary_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = RunFiles(path=tmp_path).summary()
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_summary(path, summarise(Outcome(state="completed", exit_code=0), [], session=CLOCK))
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["summary.json"]


def test_other_hosts_write_beside_the_first_ones(tmp_path: Path) -> None:
    assert RunFiles(path=tmp_path).summary(3).name == "summary.node_3.json"
