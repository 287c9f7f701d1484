"""`mindrecipe runs ls`: every figure sorts, what was not measured comes last, wrong words are told."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import make, steps, usage

from mindrecipe.errors import UserError
from mindrecipe.judge.listing import COLUMNS, rows
from mindrecipe.judge.recorded import Recorded, find_runs, open_run
from mindrecipe.measure.record import Event, to_line


@pytest.fixture
def three(here: Path) -> Path:
    make(here / "runs/tiny/20250101-000000-aaaaaa", steps(30, slow=1.0))
    make(here / "runs/tiny/20250101-000001-bbbbbb", steps(30, slow=2.0), lock={"created": "2025-01-02T00:00:00+0000"})
    unfinished = make(here / "runs/20250101-000002-cccccc", steps(2))
    (unfinished / "summary.json").unlink()
    (here / "runs/tiny/notarun").mkdir()
    make(here / "runs/bench/20250101-000000/a", steps(2))  # a side of a bench is nobody's last run
    (here / "runs/tiny/20250101-000000-aaaaaa/evaluations").mkdir()  # and looking at a run makes it no newer
    return here


def test_the_fastest_first_and_the_unmeasured_last(three: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("runs", "ls", "--sort", "tokens_per_s")
    assert done.code == 0 and [Path(line.split("\t")[1]).name[-6:] for line in done.out.splitlines()[1:]] == ["aaaaaa", "bbbbbb", "cccccc"]
    assert [row.run.path.name[-6:] for row in rows(find_runs(three / "runs"), sort="step_p95")] == ["aaaaaa", "bbbbbb", "cccccc"]
    assert [row.run.path.name[-6:] for row in rows(find_runs(three / "runs"), sort="step_p95", reverse=True)] == [
        "bbbbbb",
        "aaaaaa",
        "cccccc",
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_sorts(column: str, three: Path) -> None:
    assert len(rows(find_runs(three / "runs"), sort=column)) == 3


def test_json_has_every_column(three: Path, mindrecipe: Callable[..., Any]) -> None:
    listed = json.loads(mindrecipe("runs", "ls", "--json").out)
    assert len(listed) == 3 and set(listed[0]) == set(COLUMNS) and listed[0]["created"] == "2025-01-02T00:00:00+0000"


def test_a_diverged_run_is_listed_and_sorts_with_the_unknown(three: Path, mindrecipe: Callable[..., Any]) -> None:
    """NaN compares with nothing: among the others it would leave them in any order."""
    bad = [replace(record, loss=math.nan if record.step > 20 else record.loss) for record in steps(30)]
    make(three / "runs/tiny/20250101-000003-dddddd", bad, lock={"created": "2024-01-01T00:00:00+0000"})
    for number in range(3):
        own = [replace(record, loss=record.loss - number) for record in steps(30)]
        make(three / f"runs/tiny/20250101-000004-eeeee{number}", own)
    for words in ((), ("--reverse",)):
        told = mindrecipe("runs", "ls", "--json", "--sort", "final_loss", *words).out
        listed = json.loads(told, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        losses = [each["final_loss"] for each in listed]
        known = [loss for loss in losses if isinstance(loss, float)]
        assert known == sorted(known, reverse=bool(words)) and set(losses[len(known) :]) == {"nan", None}


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("summary.json", b'{"state": "comp'),
        ("summary.json", b"\xff\xfe"),
        ("summary.json", b"[1]"),
        ("lock.json", b"{"),
        ("lock.json", b"7"),
    ],
)
def test_a_damaged_run_is_a_row_and_the_others_are_shown(file: str, damage: bytes, three: Path, mindrecipe: Callable[..., Any]) -> None:
    damaged = three / "runs/tiny/20250101-000000-aaaaaa"
    (damaged / file).write_bytes(damage)
    for words in (("--json",), ("--json", "--sort", "tokens_per_s"), ()):
        done = mindrecipe("runs", "ls", *words)
        assert done.code == 0 and str(damaged / file) in done.err
    listed = json.loads(mindrecipe("runs", "ls", "--json").out)
    assert {each["run"][-6:]: each["state"] for each in listed} == {"aaaaaa": "unreadable", "bbbbbb": "completed", "cccccc": "unfinished"}


_STEP = json.loads(to_line(steps(1)[0]))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("metrics.jsonl", "not json"),
        ("metrics.jsonl", "[1, 2]"),
        ("metrics.jsonl", json.dumps({"step": 1, "loss": 2.0})),
        ("metrics.jsonl", json.dumps({**_STEP, "of_tomorrow": 1})),
        ("metrics.jsonl", json.dumps({**_STEP, "loss": "much"})),
        ("metrics.jsonl", "\udcff"),
        ("attempts.jsonl", '{"number": 2, "sta'),
        ("attempts.jsonl", "{}"),
        ("logs/rank_0.usage.jsonl", '{"time": 1}'),
        ("config.yaml", "a: [1"),
    ],
)
def test_damaged_lines_are_told_with_their_file(file: str, line: str, here: Path, mindrecipe: Callable[..., Any]) -> None:
    """By every verb that reads a run; what they have written before is none of their faults."""
    busy = [usage(float(second)) for second in range(15, 60, 5)]
    path = make(here / "runs/tiny/aaa", steps(30), samples=busy, events=[Event(phase="train", rank=0, pid=1, time=10.0, detail={})])
    with (path / file).open("ab") as lines:
        lines.write(line.encode("utf-8", "surrogateescape") + b"\n")
    for words in (("diagnose", str(path)), ("report", str(path), "--format", "json"), ("compare", str(path), str(path))):
        done = mindrecipe(*words)
        if file != "attempts.jsonl" or words[0] == "report":  # nothing else reads it
            assert done.code == 2 and str(path / file) in done.err and (file == "config.yaml" or "line " in done.err), done.err


@pytest.mark.parametrize("damage", [b"\xff\xfe{}\n", b'{"schema": 1, "name": "a", "tolerances": {}, "measured": 3}\n', b"nothing\n"])
def test_a_file_that_holds_no_baselines(damage: bytes, here: Path, mindrecipe: Callable[..., Any]) -> None:
    (here / "old.jsonl").write_bytes(damage)
    (here / "folder.jsonl").mkdir()
    for words in (
        ("compare", "old.jsonl", "old.jsonl"),
        ("baseline", "ls", "--file", "old.jsonl"),
        ("baseline", "ls", "--file", "folder.jsonl"),
    ):
        done = mindrecipe(*words)
        assert done.code == 2 and words[-1] in done.err and done.err.count("mend") == 1


def test_a_line_that_was_being_written_is_left_out(here: Path) -> None:
    path = make(here / "runs/tiny/aaa", steps(30))
    for file in ("metrics.jsonl", "attempts.jsonl", "logs/rank_0.usage.jsonl"):
        with (path / file).open("a") as lines:
            lines.write('{"number": 2, "st')
    run = Recorded(path)
    assert len(run.steps) == 30 and run.restarts == [] and run.usage == {0: []}


def test_wrong_words(here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("runs", "ls")
    assert done.code == 2 and "there is no folder runs" in done.err
    (here / "runs").mkdir()
    done = mindrecipe("runs", "ls", "--sort", "tokens")
    assert done.code == 2 and "--sort tokens_per_s" in done.err


def test_runs_are_found_by_path_name_and_last(three: Path) -> None:
    path = three / "runs/tiny/20250101-000000-aaaaaa"
    assert open_run(str(path)).path == path and open_run(path.name).path == path
    assert open_run("last").path.name.endswith("cccccc")
    with pytest.raises(UserError, match="there is no run nothing"):
        open_run("nothing")
    with pytest.raises(UserError, match="not a run directory"):
        open_run("runs/tiny/notarun")
