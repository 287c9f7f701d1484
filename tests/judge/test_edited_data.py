"""A text that is edited between two calls: what was measured on the old one is measured again, in all that go on where they stopped."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindrecipe.errors import UserError, UserErrors
from mindrecipe.judge import bench, identity, training
from mindrecipe.judge.experiments import cells
from mindrecipe.judge.experiments.cells import measure_cell

FAKE = Path(__file__).with_name("fake_train.py")
TURNS = ("--pairs", "5", "--steps", "1", "-o", "out", "--rounds")
#: each with what is more the second time
COMMANDS = [
    (("bench", "fake.data=a.txt", "fake.data=a.txt x=1", "--metric", "memory", *TURNS), "1", "2"),
    (("ladder", "fake.data=a.txt", "vary=x=1,2", *TURNS), "1", "1"),
    (("grid", "fake.data=a.txt", "x=1,2", "--warm-up", "2", "-o", "out", "--steps"), "3", "3"),
    (("scale", "fake.data=a.txt", "--warm-up", "2", "-o", "out", "--steps"), "3", "3"),
]


def hash_of(words: list[str]) -> str:
    """Of what the stand-in reads."""
    files = [Path(word.partition("=")[2]) for word in words if word.startswith("fake.data=")]
    return hashlib.sha256(files[0].read_bytes()).hexdigest() if files else "abc"


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "COMMAND", (sys.executable, str(FAKE)))
    for verb in ("bench", "grid", "ladder", "scale"):  # the stand-in's words are none of a recipe
        monkeypatch.setattr(f"mindrecipe.cli.{verb}.readable", lambda trainings: [])
    monkeypatch.setattr(identity, "identity_of", lambda words: {"config": "one", "data": hash_of(words), "versions": {}})
    monkeypatch.setenv("PYTHONPATH", f"{FAKE.parents[2] / 'src'}:{FAKE.parent}")


@pytest.mark.parametrize(("words", "first", "then"), COMMANDS, ids=[words[0] for words, _, _ in COMMANDS])
def test_it_is_measured_again_once(words: tuple[str, ...], first: str, then: str, here: Path, mindrecipe: Callable[..., Any]) -> None:
    (here / "a.txt").write_text("old")
    assert mindrecipe(*words, first).code == 0
    old = set(here.rglob("lock.json"))
    (here / "a.txt").write_text("new")
    done = mindrecipe(*words, then)
    assert done.code == 0 and "the same words made another data set" in done.err.replace("\n", " "), done.err
    locks = [lock for lock in here.rglob("lock.json") if ".stale-" not in str(lock)]
    assert old <= set(locks) and {json.loads(lock.read_text())["dataset_hash"] for lock in locks} == {hash_of(["fake.data=a.txt"])}
    assert "failed" not in done.out and "measured again" not in mindrecipe(*words, then).err


def test_an_edit_around_the_start_of_a_training(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edited before its training has read it, and back after it: what counts is what was trained on."""
    (here / "a.txt").write_text("old")
    monkeypatch.setattr(identity, "identity_of", lambda words: {"config": "one", "data": old, "versions": {}})
    old, told = hash_of(["fake.data=a.txt"]), list[str]()
    for text in ("between", "old"):
        (here / "a.txt").write_text(text)
        words = ["fake.data=a.txt"]
        bench.rounds(words, words, here / "bench", count=1, pairs=5, steps=1, told=told.append)
        measure_cell(words, here / "cells", warm_up=2, steps=3, told=told.append)
    assert len([line for line in told if "again" in line and "another data set" in line]) == 2


def test_a_cell_whose_data_is_gone_is_a_fault_and_is_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a.txt").write_text("old")
    assert measure_cell(["fake.data=a.txt"], here / "cells", warm_up=2, steps=3).fault is None

    def gone(words: list[str]) -> identity.Identity:
        raise UserErrors([UserError("there is no file a.txt", where="x", mend="y"), UserError("another")])

    with monkeypatch.context() as patch:
        patch.setattr(identity, "identity_of", gone)
        assert measure_cell(["fake.data=a.txt"], here / "cells", warm_up=2, steps=3).fault == "there is no file a.txt"
    monkeypatch.setattr(cells, "Training", None)  # not started again
    assert measure_cell(["fake.data=a.txt"], here / "cells", warm_up=2, steps=3).fault is None


def test_the_identity_knows_the_data_without_building_it(here: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setenv("MINDRECIPE_CACHE", str(here / "cache"))
    words, kept = ["+model=llama2_tiny", "dataset=text", "dataset.files=[a.txt]"], []
    for text in ("one\n" * 500, "two\n" * 500, "one\n" * 500):
        (here / "a.txt").write_text(text)
        kept.append(identity.identity_of(words))
    assert kept[0] == kept[2] and identity.changed(kept[0], kept[2], kept[0]["data"]) is None
    assert {key for key in kept[0] if kept[0][key] != kept[1][key]} == {"data"}
    assert "another data set" in str(identity.changed(kept[0], kept[1], kept[0]["data"]))
    assert not list(here.rglob("*.mindrecord"))
    (here / "a.txt").unlink()
    with pytest.raises(UserError, match=r"there is no file .*a\.txt"):
        identity.identity_of(words)
