"""`mindrecipe runs ls`: every figure sorts, what was not measured comes last, wrong words are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import make, steps

from mindrecipe.errors import UserError
from mindrecipe.judge.listing import COLUMNS, rows
from mindrecipe.judge.recorded import find_runs, open_run


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
