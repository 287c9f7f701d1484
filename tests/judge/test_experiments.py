"""Bench, ladder, grid and scale, over a stand-in for `train` that really takes time: turns, verdicts, taking up again, faults."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.errors import UserError
from mindrecipe.judge import bench, identity, thresholds, training
from mindrecipe.judge.bench import Benched
from mindrecipe.judge.compare import DESPITE, compare
from mindrecipe.judge.experiments import cells, grid, ladder, scale
from mindrecipe.judge.experiments.cells import Cell, values_of
from mindrecipe.judge.training import Training, with_words, words_of

FAKE = Path(__file__).with_name("fake_train.py")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "COMMAND", (sys.executable, str(FAKE)))
    for verb in ("bench", "grid", "ladder", "scale"):  # the stand-in's words are none of a recipe
        monkeypatch.setattr(f"mindrecipe.cli.{verb}.readable", lambda trainings: [])
    monkeypatch.setattr(identity, "identity_of", lambda words: {"config": "one", "data": "abc", "versions": {"mindrecipe": "1"}})
    monkeypatch.setenv("PYTHONPATH", f"{FAKE.parents[2] / 'src'}:{FAKE.parent}")


def trained(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("lock.json"))


def wait_for_steps(training: Training, count: int) -> None:
    seen = 0
    while seen < count:
        assert training.running
        seen += len(training.new_steps())
        time.sleep(0.01)


def test_turns_are_taken_and_the_slower_one_is_found(tmp_path: Path) -> None:
    found = Benched(*bench.turns([["fake.slow=1"], ["fake.slow=1.3"]], tmp_path / "bench", pairs=8, steps=4))
    assert len(found.a.blocks) == len(found.b.blocks) == 8 and {len(turn) for turn in [*found.a.blocks, *found.b.cpu_blocks]} == {4}
    judged = {metric.name: metric for metric in compare(found.a, found.b, thresholds.parse(()), despite=DESPITE, paired=True).metrics}
    assert judged["cpu_time"].verdict == "worse" and judged["cpu_time"].difference == pytest.approx(0.3, abs=0.08)
    assert max(max(turn) for turn in found.a.blocks) < 2.0, "no step that was held counts"


def test_holding_stops_the_clock(tmp_path: Path) -> None:
    run = Training(["schedule.total_steps=5000"], tmp_path / "run")
    try:
        wait_for_steps(run, 3)
        run.hold()
        run.new_steps()
        deadline = time.monotonic() + 20
        while psutil.Process(run._process.pid).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline
        run.new_steps()
        time.sleep(0.2)
        assert run.new_steps() == []
        run.go()
        wait_for_steps(run, 1)
    finally:
        run.stop()
    assert not run.running


def test_a_side_that_fails_is_told_and_the_other_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this word can't be"):
        bench.rounds(["fake.slow=1"], ["fake.fail=true"], tmp_path / "bench", count=1, pairs=5, steps=2)
    left = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(process.info["cmdline"] or [])]
    assert left == []


def test_the_command_and_its_verdict(here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("bench", "fake.memory=1", "fake.memory=1.2", "--pairs", "5", "--steps", "2", "-o", "out", "--threshold", "cpu_time=9",
                      "--threshold", "throughput=9", "--threshold", "step_p95=9")  # fmt: skip
    assert done.code == 1 and "memory\tworse" in done.out and (here / "out/bench.json").is_file()
    wide = [word for name in ("cpu_time", "throughput", "step_p95") for word in ("--threshold", f"{name}=9")]
    words = ("bench", "x=y", "x=y", "--pairs", "5", "--steps", "2", "-o", "two", *wide)
    assert mindrecipe(*words).code == 0
    first = (here / "two/round1/a/lock.json").stat().st_mtime_ns
    (here / "two/round2").mkdir()  # begun, and stopped
    assert mindrecipe(*words, "--rounds", "3").code == 0, "goes on after the rounds it has"
    assert len(json.loads((here / "two/bench.json").read_text())["rounds"]) == 3 and len(list((here / "two").glob("*.broken-*"))) == 1
    assert (here / "two/round1/a/lock.json").stat().st_mtime_ns == first
    other = mindrecipe("bench", "x=y", "x=z", *words[3:])
    assert other.code == 2 and "another comparison" in other.err


def test_a_ladder_keeps_what_helps_and_goes_on_where_it_was(here: Path, mindrecipe: Callable[..., Any]) -> None:
    words = ("ladder", "x=y", "vary=fake.slow=2,1,3; fake.memory=1,0.5; fake.fail=false,true", "--pairs", "6", "--steps", "3", "-o", "out",
             "--rounds", "1", "--threshold", "throughput=9", "--threshold", "cpu_time=0.2", "--threshold", "step_p95=9")  # fmt: skip
    done = mindrecipe(*words)
    assert done.code == 0, done.err
    rows = {line.split("\t")[0]: line.split("\t")[-1] for line in done.out.splitlines()[1:]}
    assert rows == {"baseline": "yes", "fake.slow=1": "yes", "fake.slow=3": "no", "fake.memory=0.5": "yes", "fake.fail=true": "no"}
    before = len(trained(here))
    assert "failed: error: this word can't be" in done.out, "why, in the words of the training"
    assert mindrecipe(*words).out == done.out and len([path for path in trained(here) if (path / "summary.json").exists()]) <= before + 1
    assert {path.name for path in (here / "out").glob("table.*")} == {"table.csv", "table.md", "table.html"}


def test_a_rung_is_several_rounds_and_more_can_be_added(here: Path, mindrecipe: Callable[..., Any]) -> None:
    wide = [word for name in ("cpu_time", "throughput") for word in ("--threshold", f"{name}=9")]
    words = ("ladder", "x=y", "vary=fake.memory=1,0.5", "--pairs", "5", "--steps", "1", "-o", "out", *wide, "--rounds")
    assert mindrecipe(*words, "2").out.splitlines()[-1].endswith("memory better\tyes") and len(trained(here)) == 4
    assert mindrecipe(*words, "3").code == 0 and len(trained(here)) == 6


@pytest.mark.parametrize("words", [("x=y",), ("x=y", "vary="), ("x=y", "vary=amp=O0")])
def test_a_ladder_without_anything_to_vary(words: tuple[str, ...], here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("ladder", *words)
    assert done.code == 2 and "vary" in done.err and not (here / "runs").exists()


def test_a_grid_goes_on_after_its_cells(here: Path, mindrecipe: Callable[..., Any]) -> None:
    words = ("grid", "x=y", "batch_size=4,8", "fake.slow=1,5", "--steps", "6", "--warm-up", "2")
    done = mindrecipe(*words)
    assert done.code == 0 and len(done.out.splitlines()) >= 5 and len(trained(here)) == 4
    first = {path: path.stat().st_mtime for path in trained(here)}
    (broken,) = [path for path in trained(here)][:1]
    (broken / "summary.json").unlink()
    assert mindrecipe(*words).code == 0
    assert len(trained(here)) == 5 and sum(path.stat().st_mtime == first.get(path) for path in trained(here)) >= 3
    assert any("fake.slow 1 -> 5" in line for line in done.out.splitlines())
    (page,) = here.rglob("table.html")
    assert page.read_text().count("<svg") == 1


def test_a_cell_that_fails_is_a_row(tmp_path: Path) -> None:
    found = grid.measure(["batch_size=4", "fake.fail=false,true"], tmp_path, warm_up=2, steps=4)
    assert found.cells["true",].fault == "error: this word can't be" and found.cells["false",].fault is None
    assert grid.table(found)[1][1][-1] == "error: this word can't be" and grid.transitions(found) == []


def test_wrong_grids(here: Path, mindrecipe: Callable[..., Any]) -> None:
    assert mindrecipe("grid", "batch_size=4").code == 2
    assert mindrecipe("grid", "batch_size=4,8", "dtype=float8").code == 2
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "tiny_cpu", "tiny_cp"),
        ("grid", "+recipe=tiny_cpu", "batch_size=4,8", "model.layers=1,2"),
        ("ladder", "+recipe=tiny_cpu", "vary=amp=O0,O2; amp.dtyp=float16,float32"),
        ("scale", "+recipe=tiny_cpu", "schedule.total_step=3"),
    ],
)
def test_words_that_no_training_can_read_are_told_before_any_is_started(
    words: tuple[str, ...], here: Path, mindrecipe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setattr(training, "COMMAND", ("/nonexistent",))
    done = mindrecipe(*words)
    assert done.code == 2 and "mend:" in done.err and not list(here.rglob("*.log")), done.err


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (("batch_size=1,2", "batch_size=2,4"), "batch_size=1,2,4"),
        (("batch_size=1,2", "dataset.batch_size=4,8"), "leave out batch_size=1,2"),
        (("batch_size=1,2", "+dataset.batch_size=4"), "leave out +dataset.batch_size=4"),
        (("amp=O2", "dtype=float32,float16"), "leave out amp=O2"),
    ],
)
def test_a_knob_of_a_grid_is_given_once(words: tuple[str, ...], mend: str) -> None:
    with pytest.raises(UserError, match="twice") as fault:
        grid.axes_of(["+recipe=tiny_cpu", *words])
    assert fault.value.mend == mend
    axes, shared = grid.axes_of(["+recipe=tiny_cpu", "amp=O0,O1", "amp.dtype=float16", "batch_size=4"])
    assert axes == {"amp": ["O0", "O1"]} and shared[1:] == ["amp.dtype=float16", "dataset.batch_size=4"]


@pytest.mark.parametrize(
    ("word", "mend"), [("workers=4", "workers=1,2"), ("dataset.batch_size=4", "--batch"), ("+launch.workers=2", "workers=1,2")]
)
def test_what_scaling_would_not_read(word: str, mend: str, here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("scale", "x=y", "workers=1,2", word)
    assert done.code == 2 and word in done.err and f"mend: {mend}" in done.err and not list(here.iterdir())


def test_scaling_against_the_ideal(here: Path, mindrecipe: Callable[..., Any]) -> None:
    points = scale.measure(["x=y"], here / "out", workers=[2], batch=8, warm_up=2, steps=5)
    assert [(point.kind, point.workers, point.batch) for point in points] == [
        ("strong", 1, 8),
        ("strong", 2, 4),
        ("weak", 1, 8),
        ("weak", 2, 8),
    ]
    assert points[3].speedup is not None and points[3].efficiency == pytest.approx(points[3].speedup / 2)
    assert points[0].speedup == points[2].speedup == 1.0 and len(trained(here)) == 3, "one rank is measured once"
    with pytest.raises(UserError, match="does not divide"):
        scale.measure([], here / "out", workers=[1, 3], batch=8, warm_up=2, steps=5)
    assert mindrecipe("scale", "workers=one").code == 2
    assert mindrecipe("scale", "x=y", "--steps", "3", "--warm-up", "2", "-o", "cli").code == 0


def test_transitions_are_where_the_cost_of_a_token_jumps() -> None:
    def cell(cost: float) -> Cell:
        return Cell(words=(), step_times=(cost,) * 3, tokens_per_step=1_000_000)

    costs = {("1", "a"): 10.0, ("2", "a"): 10.5, ("4", "a"): 20.0, ("1", "b"): 10.0, ("2", "b"): 10.0, ("4", "b"): 10.0}
    found = grid.transitions(grid.Grid({"n": ["1", "2", "4"], "k": ["a", "b"]}, {place: cell(cost) for place, cost in costs.items()}))
    assert [(jump.axis, jump.before, jump.after, jump.at) for jump in found] == [("k", "a", "b", "n=4"), ("n", "2", "4", "k=a")] or [
        (jump.axis, jump.before, jump.after, jump.at) for jump in found
    ] == [("n", "2", "4", "k=a"), ("k", "a", "b", "n=4")]
    assert str(found[0]).endswith("%)")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("a=1,2", ("a", ["1", "2"])),
        ("+a.b=x", None),
        ("a=[1,2]", None),
        ("a=[1,2],[3]", ("a", ["[1,2]", "[3]"])),
        ("a='x,y',z", ("a", ["'x,y'", "z"])),
        ("word", None),
    ],
)
def test_values(word: str, found: Any) -> None:
    assert values_of(word) == found


@given(st.lists(st.sampled_from(["a=1", "+a=2", "b=3", "++c=4", "~d"]), max_size=6), st.lists(st.sampled_from(["a=5", "c=6"]), max_size=2))
def test_later_words_replace_earlier_ones(words: list[str], more: list[str]) -> None:
    keys = [word.lstrip("+").partition("=")[0] for word in with_words(words, *more)]
    for key in {word.partition("=")[0] for word in more}:
        assert keys.count(key) == len([word for word in more if word.startswith(key)])


def test_words_of_a_side() -> None:
    assert words_of("tiny_cpu") == ["+recipe=tiny_cpu"] and words_of("+model=x 'a=[1, 2]'") == ["+model=x", "a=[1, 2]"]
    folders = {cells.folder_of("grid", words) for words in itertools.permutations(["a=1", "b=2"])}
    assert len(folders) == 2


def test_a_rung_helps_when_something_is_better_and_nothing_worse(tmp_path: Path) -> None:
    (found,) = bench.rounds(["x=y"], ["fake.memory=0.5"], tmp_path / "bench", count=1, pairs=5, steps=2)
    wide = {**thresholds.parse(()), "throughput": 9.0, "cpu_time": 9.0, "step_p95": 9.0}
    assert ladder.helps(compare(found.a, found.b, wide, despite=DESPITE, only=ladder.JUDGED, paired=True), 1)
    assert not ladder.helps(compare(found.b, found.a, wide, despite=DESPITE, only=ladder.JUDGED, paired=True), 1)
