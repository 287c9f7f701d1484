"""benchmarks/drill.py keeps each run as it ends, and goes on from what it has; the trainings are figures."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import mindrecipe.drill as package
from mindrecipe.drill import Hit, Row

SCRIPT = Path(__file__).parents[2] / "benchmarks/drill.py"
Bench = Callable[..., int]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What each call drills: every fault loses two steps."""
    calls: list[list[str]] = []

    def told(overrides: Sequence[str], folder: Path, *, faults: Sequence[str], **_: Any) -> Iterator[Row]:
        calls.append(list(faults))
        yield Row(fault="none", identical=True)
        for fault in faults:
            names = fault.split("+")
            hits = [
                Hit(fault=name, at=9, detected=0.1, lost=2, recovered=7.0, unfinished=("x.tmp",) if name == "save" else None)
                for name in names
            ]
            yield Row(fault=fault, identical=True, hits=tuple(hits))

    monkeypatch.setattr(package, "drill", told)
    return calls


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    def call(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["drill.py", "--keep", str(tmp_path / "kills.jsonl"), *words])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return int(end.value.code or 0)

    return call


def test_a_call_goes_on_where_the_last_one_was(
    bench: Bench, asked: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--kills", "3", "--a-run", "2") == 0
    with (tmp_path / "kills.jsonl").open("a") as cut:
        cut.write('{"asked": ')  # it was killed there
    assert bench("--kills", "7", "--a-run", "2") == 0
    first, second = asked
    assert [len(fault.split("+")) for fault in first] == [2, 1] and [len(fault.split("+")) for fault in second] == [2, 2]
    capsys.readouterr()
    assert bench("--again", "--kills", "7", "--a-run", "2") == 0 and len(asked) == 2
    said = capsys.readouterr().out
    assert "7 kills of 4 runs, 4 runs identical" in said
    rows = [json.loads(line) for line in (tmp_path / "kills.jsonl").read_text().splitlines()]
    saves = sum(hit["fault"] == "save" for row in rows for hit in row["hits"])
    assert f"| save | {saves} | {saves} | {saves} | 2.0 | 7.0 s | {saves} of {saves} |" in said


def test_other_runs_are_not_mixed_in(bench: Bench, asked: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--kills", "2") == 0
    assert bench("--kills", "2", "--seed", "1") == 2 and len(asked) == 1
    assert "another --keep" in capsys.readouterr().err
