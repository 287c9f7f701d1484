"""Bench, ladder and scale over real trainings, as small as they may be: what costs four times as much must be found to."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
PROGRAM = str(Path(sys.executable).parent / "mindrecipe")
SMALL = ("+model=llama2_tiny", "model.num_layers=1", "evaluate=off", "checkpoint=off")
TURNS = ("--pairs", "5", "--steps", "1")


def mindrecipe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=560, check=False)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_bench(tmp_path: Path) -> None:
    done = mindrecipe(tmp_path, "bench", " ".join(SMALL), " ".join([*SMALL, "model.num_layers=4"]), *TURNS, "-o", "out", "--json")
    assert done.returncode == 1, done.stderr[-2000:]
    told = json.loads(done.stdout)
    metrics = {metric["name"]: metric for metric in told["metrics"]}
    assert told["verdict"] == "worse" and metrics["cpu_time"]["verdict"] == "worse" and metrics["cpu_time"]["difference"] > 0.5
    kept = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert [len(turn) for turn in kept["rounds"][0]["a"]["blocks"]] == [1] * 5 and kept["comparison"]["verdict"] == "worse"
    for side in ("a", "b"):
        assert json.loads((tmp_path / "out" / "round1" / side / "summary.json").read_text())["state"] == "completed"


def test_ladder(tmp_path: Path) -> None:
    words = ("ladder", *SMALL, "vary=dataset.batch_size=8,32", *TURNS, "--rounds", "1", "-o", "out")
    done = mindrecipe(tmp_path, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    baseline, rung = table(tmp_path / "out")
    assert baseline["config"] == "baseline" and baseline["kept"] == "yes" and rung["config"] == "dataset.batch_size=32"
    assert "cpu_time worse" not in rung["verdict"], "a step of four times the tokens may take longer"
    assert (rung["kept"] == "yes") == ("better" in rung["verdict"].replace("final_loss better", "") and "worse" not in rung["verdict"])
    assert all(float(rung[name]) for name in ("tokens_per_s", "throughput_difference", "p50_s", "p95_s", "memory_bytes", "loss"))
    runs = sorted((tmp_path / "out").rglob("lock.json"))
    again = mindrecipe(tmp_path, *words)
    assert again.returncode == 0 and again.stdout == done.stdout and sorted((tmp_path / "out").rglob("lock.json")) == runs


def test_scale(tmp_path: Path) -> None:
    done = mindrecipe(tmp_path, "scale", *SMALL, "workers=1,2", "--steps", "5", "--warm-up", "2", "-o", "out")
    assert done.returncode == 0, done.stderr[-2000:]
    rows = table(tmp_path / "out")
    assert [(row["scaling"], row["ranks"], row["batch_per_rank"]) for row in rows] == [
        ("strong", "1", "8"), ("strong", "2", "4"), ("weak", "1", "8"), ("weak", "2", "8"),
    ]  # fmt: skip
    assert not any(row["fault"] for row in rows) and all(float(row["tokens_per_s"]) and float(row["p50_s"]) for row in rows)
    assert [float(rows[number]["efficiency"]) for number in (0, 2)] == [1.0, 1.0] and [row["ideal"] for row in rows] == ["1", "2", "1", "2"]
    for row in rows:  # how much faster two ranks are is a matter of what else the machine does
        assert float(row["efficiency"]) == pytest.approx(float(row["speed_up"]) / int(row["ideal"]))
