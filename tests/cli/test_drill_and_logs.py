"""`mindrecipe drill` and `mindrecipe logs`: their words, without trainings (those: tests/drill)."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mindrecipe.cli.drill as verb
from mindrecipe.drill import Hit, Row
from mindrecipe.launch.claim import Claim

Cli = Callable[..., Any]
HIT = Hit(fault="worker", at=7, detected=0.5, lost=1, recovered=9.0)
GOOD = Row(fault="worker", identical=True, hits=(HIT,))
BAD = Row(fault="save", identical=False, problem="step 8: loss 1.0 instead of 2.0")


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """What the drill comes to."""
    found: list[Row] = []

    def told(*_: Any, **__: Any) -> Iterator[Row]:
        yield from found

    monkeypatch.setattr(verb, "run_drill", told)
    return found


def test_the_table_and_the_exit_code(here: Path, rows: list[Row], mindrecipe: Cli) -> None:
    rows += [GOOD]
    said = mindrecipe("drill", "+model=llama2_tiny")
    assert said.code == 0
    head, row = said.out.splitlines()
    assert head.split("  ")[0] == "fault" and row.split() == ["worker", "7", "0.5", "s", "1", "9.0", "s", "-", "yes"]
    rows += [BAD]
    said = mindrecipe("drill", "+model=llama2_tiny", "--folder", "kept")
    assert said.code == 1 and "NO" in said.out and BAD.problem in said.out and f"runs: {here / 'kept'}" in said.out
    assert [each["fault"] for each in json.loads(mindrecipe("drill", "+model=llama2_tiny", "--json").out)] == ["worker", "save"]


def test_runs_that_are_kept_are_named_however_it_ends(
    here: Path, rows: list[Row], mindrecipe: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a folder that the user has named, and of a temporary one: with --json, beside it."""
    place = tmp_path / "drilled"

    def make(prefix: str) -> str:
        place.mkdir()
        (place / "straight").mkdir()
        return str(place)

    monkeypatch.setattr(verb.tempfile, "mkdtemp", make)
    rows += [BAD]
    said = mindrecipe("drill", "+model=llama2_tiny", "--json")
    assert said.code == 1 and json.loads(said.out)[0]["fault"] == "save" and said.err.splitlines() == [f"runs: {place}"]
    assert place.exists()
    shutil.rmtree(place)
    rows[:] = [GOOD]
    said = mindrecipe("drill", "+model=llama2_tiny", "--json")
    assert said.code == 0 and said.err == "" and not place.exists(), "nothing is kept"

    def stopped(*_: Any, **__: Any) -> Iterator[Row]:
        yield GOOD
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "run_drill", stopped)
    said = mindrecipe("drill", "+model=llama2_tiny", "--json")
    assert said.code == 130 and said.err.splitlines()[0] == f"runs: {place}"
    shutil.rmtree(place)
    said = mindrecipe("drill", "+model=llama2_tiny")
    assert said.code == 130 and said.out.splitlines()[-1] == f"runs: {place}"


def test_a_fault_that_could_not_be_made_is_told(here: Path, rows: list[Row], mindrecipe: Cli) -> None:
    rows += [Row(fault="disk", identical=False, not_made="mount: permission denied")]
    said = mindrecipe("drill", "+model=llama2_tiny")
    assert said.code == 0 and said.out.splitlines()[1].split(maxsplit=1) == ["disk", "not made on this machine: mount: permission denied"]
    assert json.loads(mindrecipe("drill", "+model=llama2_tiny", "--json").out)[0]["not_made"] == "mount: permission denied"


def test_a_run_that_suffers_several(here: Path, rows: list[Row], mindrecipe: Cli) -> None:
    caught = Hit(fault="save", at=11, detected=1.5, lost=3, recovered=8.0, unfinished=("x.tmp",))
    rows += [Row(fault="worker+save", identical=True, hits=(HIT, caught))]
    words = ("drill", "+model=llama2_tiny", "--faults", "worker+save")
    head, *lines = mindrecipe(*words).out.splitlines()
    columns = [head.index(name) for name in ("at step", "detected in", "lost steps", "recovered in", "in a write", "identical")]
    cells = [[line[start:].split("  ")[0] for start in (0, *columns)] for line in lines]
    assert cells[0] == ["worker+save", "-", "1.5 s", "4", "9.0 s", "yes", "yes"], "the longest times, all lost steps"
    assert [line.split() for line in lines[1:]] == [
        ["worker", "7", "0.5", "s", "1", "9.0", "s", "-"],
        ["save", "11", "1.5", "s", "3", "8.0", "s", "yes"],
    ]
    told = json.loads(mindrecipe(*words, "--json").out)
    assert [hit["unfinished"] for hit in told[0]["hits"]] == [None, ["x.tmp"]]


def test_a_kill_that_missed_the_write_is_told(here: Path, rows: list[Row], mindrecipe: Cli) -> None:
    rows += [Row(fault="save", identical=True, hits=(Hit(fault="save", at=4, detected=1.0, lost=0, recovered=8.0, unfinished=()),))]
    assert mindrecipe("drill", "+model=llama2_tiny").out.splitlines()[1].split()[-2:] == ["no", "yes"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--faults", "fire"], "there is no fault 'fire'"),
        (["--faults", "worker+fire"], "there is no fault 'fire'"),
        (["--faults", "worker+"], "there is no fault ''"),
        (["--steps", "6", "--every", "4"], "there must be three checkpoints"),
        (["--folder", "."], "exists"),
        (["--folder", "/proc/none"], "can't make /proc/none"),
    ],
)
def test_what_is_wrong_is_told(here: Path, rows: list[Row], mindrecipe: Cli, words: list[str], fault: str) -> None:
    said = mindrecipe("drill", "+model=llama2_tiny", *words)
    assert said.code == 2 and fault in said.err


def run_with_logs(folder: Path, **logs: str) -> Path:
    (folder / "logs").mkdir(parents=True)
    (folder / "lock.json").write_text("{}")
    for name, text in logs.items():
        (folder / "logs" / f"{name}.log").write_text(text)
    return folder


def test_each_line_carries_its_rank(here: Path, mindrecipe: Cli) -> None:
    os.utime(run_with_logs(here / "runs/x/old", rank_0="old\n") / "lock.json", (1, 1))
    run_with_logs(here / "runs/x/new", rank_0="a\nb\n", rank_1="c\nd\n", msrun="no rank\n")
    assert mindrecipe("logs", "runs").out == "rank 0: a\nrank 0: b\nrank 1: c\nrank 1: d\n"
    assert mindrecipe("logs", "runs/x/new", "-n", "1", "--rank", "1").out == "rank 1: d\n"
    said = mindrecipe("logs", "runs", "--rank", "7")
    assert said.code == 2 and "there are ranks 0, 1" in said.err
    assert mindrecipe("logs", "nowhere").code == 2


def test_following_ends_with_the_run(here: Path, mindrecipe: Cli) -> None:
    run = run_with_logs(here / "run", rank_0="a\n")
    with Claim(run):
        ended = threading.Event()
        said: list[Any] = []
        reader = threading.Thread(target=lambda: (said.append(mindrecipe("logs", "run", "-f")), ended.set()))
        reader.start()
        time.sleep(0.5)
        with (run / "logs/rank_0.log").open("a") as file:
            file.write("b\n")
        assert not ended.wait(0.5)
    assert ended.wait(200)
    reader.join()
    assert said[0].out == "rank 0: a\nrank 0: b\n"
