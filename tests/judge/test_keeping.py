"""Measurements and their processes: what is kept is of what is asked, nobody's training is touched, and none outlives who started it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mends import quick
from mindrecipe.errors import UserError
from mindrecipe.execute import plan_of
from mindrecipe.judge import bench, identity, training
from mindrecipe.judge.experiments import grid, ladder, scale
from mindrecipe.judge.keeping import Busy, claimed
from mindrecipe.judge.training import Training, stop_all
from mindrecipe.launch.claim import Claim
from mindrecipe.launch.environment import rank_environment

FAKE = Path(__file__).with_name("fake_train.py")
LONG = ["schedule.total_steps=5000"]
#: a process that measures two sides in turns, over the stand-in
BENCH = f"""
import sys
from pathlib import Path
from mindrecipe.judge import bench, training
training.COMMAND = (sys.executable, {str(FAKE)!r})
bench.turns([["x=a"], ["x=b"]], Path(sys.argv[1]), pairs=200, steps=5)
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "COMMAND", (sys.executable, str(FAKE)))
    for verb in ("bench", "grid", "ladder", "scale"):
        monkeypatch.setattr(f"mindrecipe.cli.{verb}.readable", lambda trainings: [])
    monkeypatch.setattr(identity, "identity_of", lambda words: {"config": "one", "data": "abc", "versions": {"mindrecipe": "1"}})
    monkeypatch.setenv("PYTHONPATH", f"{FAKE.parents[2] / 'src'}:{FAKE.parent}")


def processes(folder: Path) -> list[psutil.Process]:
    """Trainings below ``folder`` that live."""
    found = [
        each
        for each in psutil.process_iter(["cmdline", "status"])
        if str(FAKE) in (line := each.info["cmdline"] or []) and "run.dir" in str(line)
    ]
    return [each for each in found if str(folder) in " ".join(each.info["cmdline"]) and each.info["status"] != psutil.STATUS_ZOMBIE]


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Training]]:
    running = [Training([*LONG, "fake.slow=1"], tmp_path / name) for name in "ab"]
    until(lambda: all((side.path / "metrics.jsonl").exists() for side in running))
    yield running
    for process in processes(tmp_path):
        process.kill()


def test_nothing_outlives_a_bench_that_is_killed(tmp_path: Path) -> None:
    """One of the two is held when it happens: a stopped process takes no signal but SIGKILL."""
    doing = subprocess.Popen([sys.executable, "-c", BENCH, str(tmp_path / "bench")], stdin=subprocess.DEVNULL)
    try:
        until(lambda: any(each.info["status"] == psutil.STATUS_STOPPED for each in processes(tmp_path)))
        doing.send_signal(signal.SIGKILL)
        doing.wait()
        until(lambda: not processes(tmp_path))
    finally:
        for process in processes(tmp_path):
            process.kill()


def test_all_are_stopped_where_nobody_waits_for_their_end(two: list[Training], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C, while the first is being obeyed."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    two[1].hold()
    monkeypatch.setattr(psutil, "wait_procs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stop_all(two)
    assert not processes(tmp_path) and not any(side.running for side in two)


def test_one_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deaf to Ctrl-C, as a background job and its children are, and to SIGTERM."""
    monkeypatch.setattr(training, "STOP_LIMIT", 0.5)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        deaf = Training([*LONG, "fake.deaf=true"], tmp_path / "deaf")
    finally:
        signal.signal(signal.SIGINT, before)
    until((tmp_path / "deaf/metrics.jsonl").exists)
    deaf.stop()
    assert not deaf.running and not processes(tmp_path)


def test_a_side_that_is_held_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Started(Exception):
        pass

    def started(words: list[str], path: Path) -> Training:
        asked.append(list(words))
        raise Started

    monkeypatch.setattr(bench, "Training", started)
    with pytest.raises(Started):
        bench.turns([["x=y", "launch.stall_timeout=5"]], tmp_path, pairs=5, steps=1)
    assert [word for word in asked[0] if word.startswith("launch.stall_timeout")] == ["launch.stall_timeout=null"]
    held = quick("+model=llama2_tiny", "parallel=data", "launch.workers=2", *(word for word in asked[0] if word.startswith("launch.")))
    assert held.check() == [] and int(rank_environment(plan_of(held, tmp_path), "x")["MS_NODE_TIMEOUT"]) >= 3600, "MindSpore's is 30 s"


def test_two_that_measure_in_one_folder(here: Path, mindrecipe: Callable[..., Any]) -> None:
    words = ("grid", "x=1,2", "--steps", "3", "--warm-up", "2", "-o", "out")
    with claimed(here / "out"):
        done = mindrecipe(*words)
        assert done.code == 2 and f"process {os.getpid()} measures in" in done.err and "mend:" in done.err
        for other in (("ladder", "x=y", "vary=z=1,2", "-o", "out"), ("scale", "x=y", "-o", "out"), ("bench", "x=1", "x=2", "-o", "out")):
            assert mindrecipe(*other).code == 2
    assert not list(here.rglob("*.log"))


def test_a_training_that_still_runs_keeps_its_directory(here: Path, mindrecipe: Callable[..., Any]) -> None:
    words = ("grid", "x=1,2", "--steps", "3", "--warm-up", "2", "-o", "out")
    assert mindrecipe(*words).code == 0
    (run, *_) = sorted(here.rglob("lock.json"))
    (run.parent / "summary.json").unlink()
    with Claim(run.parent):
        done = mindrecipe(*words)
        assert done.code == 2 and "trains in" in done.err and run.exists()
    (here / "two/round1/a").mkdir(parents=True)
    with Claim(here / "two/round1/a"), pytest.raises(Busy):
        bench.rounds(["x=1"], ["x=2"], here / "two", count=1, pairs=5, steps=1)
    rung = ladder._name(["evaluate=off", "checkpoint=off", "z=1"], ["evaluate=off", "checkpoint=off", "z=2"], 5, 1)
    (here / "three" / rung / "round1/a").mkdir(parents=True)
    with Claim(here / "three" / rung / "round1/a"):
        done = mindrecipe("ladder", "vary=z=1,2", "--pairs", "5", "--steps", "1", "-o", "three")
        assert done.code == 2 and "trains in" in done.err, "no rung that failed"


def test_what_was_kept_of_another_configuration_is_measured_again(
    here: Path, mindrecipe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = ("grid", "x=1,2", "--steps", "3", "--warm-up", "2", "-o", "out")
    sides = ("bench", "x=1", "x=2", "--pairs", "5", "--steps", "1", "-o", "two")
    for words in (cells, sides):
        assert mindrecipe(*words).code != 2 and "again" not in mindrecipe(*words).err
    first = set(here.rglob("lock.json"))
    monkeypatch.setattr(identity, "identity_of", lambda words: {"config": "x=2" in words, "data": "abc", "versions": {"mindrecipe": "2"}})
    done = mindrecipe(*cells, "--json")
    assert done.code == 0 and done.err.count("is measured again") == 2 and "mindrecipe 1, now 2" in done.err.replace("\n", " ")
    assert mindrecipe(*sides).err.count("is measured again") == 1
    assert len(list(here.rglob("lock.json"))) == 2 * len(first) and len([path for path in here.rglob("*.stale-*") if path.is_dir()]) == 3
    assert "again" not in mindrecipe(*cells).err + mindrecipe(*sides).err, "once"


def test_a_recipe_that_is_edited_between_two_rounds(tmp_path: Path) -> None:
    bench.rounds(["x=1"], ["x=1"], tmp_path / "one", count=1, pairs=5, steps=1)
    kept = json.loads((tmp_path / "one/round1.json").read_text())
    for number in (1, 2):
        kept["b"]["identity"]["config_hash"] = f"hash {number}"
        (tmp_path / f"one/round{number}.json").write_text(json.dumps(kept))
    with pytest.raises(UserError, match="in round 2 the words made another configuration"):
        bench.rounds(["x=1"], ["x=1"], tmp_path / "one", count=2, pairs=5, steps=1)


def test_an_edit_that_is_taken_back_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round is kept as what its words made when it began, not when the call did."""
    made = iter(["old", "old", "new", "new", *["old"] * 8])
    monkeypatch.setattr(identity, "identity_of", lambda words: {"config": next(made), "data": "abc", "versions": {}})
    told: list[str] = []
    for _ in range(2):
        bench.rounds(["x=1"], ["x=1"], tmp_path / "one", count=2, pairs=5, steps=1, told=told.append)
    assert [line for line in told if "again" in line] == [
        line for line in told if line.startswith(f"{tmp_path}/one/round2.json is measured")
    ]
    assert list((tmp_path / "one").glob("round2.json.stale-*"))


def test_the_identity_is_of_what_the_words_make(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(here)
    (here / "recipes").mkdir()
    recipe = here / "recipes/mine.yaml"
    kept = []
    for rate in ("0.001", "0.002"):
        recipe.write_text(f"# @package _global_\ndefaults:\n  - override /model: llama2_tiny\noptimizer:\n  learning_rate: {rate}\n")
        kept.append(identity.identity_of(["+recipe=mine"]))
    data = kept[0]["data"]
    assert identity.changed(kept[0], kept[0], data) is None and kept[0]["versions"]["mindspore"]
    assert "the same words made another configuration" in str(identity.changed(kept[0], kept[1], data))
    assert kept[0] == {**identity.identity_of(["optimizer.learning_rate=0.001", "+recipe=mine", "run.name=other"])}
    assert identity.changed(None, kept[0], data) is not None


def test_tables_for_programs_have_base_units(here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("grid", "fake.fail=false,true", "--steps", "3", "--warm-up", "2", "-o", "out", "--json")
    good, bad = json.loads(done.out)["rows"]
    assert good["memory_bytes"] == 2**30 and good["tokens_per_s"] * good["s_per_token"] == pytest.approx(1.0) and 0.005 < good["p50_s"] < 10
    assert bad["p50_s"] is None and bad["fault"] == "error: this word can't be"
    with (here / "out/table.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert float(rows[0]["p95_s"]) == good["p95_s"] and rows[1]["tokens_per_s"] == "" and "GiB" in (here / "out/table.md").read_text()
    (one, two, *_) = json.loads(mindrecipe("scale", "x=y", "--steps", "3", "--warm-up", "2", "-o", "s", "--json").out)["rows"]
    assert (one["ranks"], one["efficiency"], two["ranks"]) == (1, 1.0, 2)
    asked = [" ".join(json.loads(lock.read_text())["command"]) for lock in here.glob("s/cells/*/lock.json")]
    assert len(asked) == 3
    words = (
        "ladder",
        "vary=dataset.batch_size=8,32",
        "--rounds",
        "1",
        "--pairs",
        "5",
        "--steps",
        "2",
        "-o",
        "l",
        "--threshold",
        "step_p95=9",
    )
    base, rung = json.loads(mindrecipe(*words, "--json").out)["rows"]
    assert base["kept"] is True and rung["memory_bytes"] == 2**30 and rung["throughput_difference"] > 1
    assert rung["kept"] is True and "cpu_time better" in rung["verdict"], "four times the tokens in a step of the same time"


def test_one_rank_is_one_whatever_the_recipe_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def cell(words: list[str], folder: Path, **_: Any) -> grid.Cell:
        asked.append(words)
        return grid.Cell(words=tuple(words))

    monkeypatch.setattr(scale, "measure_cell", cell)
    scale.measure(["parallel=data", "launch.workers=2"], tmp_path, workers=[1, 2], batch=8, warm_up=2, steps=3)
    ranks = [[word for word in words if word.startswith(("parallel", "launch"))] for words in asked]
    assert ranks[0] == ["parallel=standalone", "launch.workers=1"] and ranks[1] == ["parallel=data", "launch.workers=2"]


def test_a_knob_is_varied_once() -> None:
    with pytest.raises(UserError, match="names a twice") as fault:
        ladder.variables("a=1,2; b=1,2; a=1,3")
    assert fault.value.mend == "vary='a=1,2,3'"


def test_a_jump_says_which_way() -> None:
    def jump(before: float, after: float) -> str:
        return str(grid.Transition("n", "1", "2", "", before, after))

    assert "it rises" in jump(10.0, 20.0) and "it falls" in jump(20.0, 10.0)
