"""What a rank's environment holds, and what must not leak into it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mindrecipe.launch import LaunchPlan, environment
from mindrecipe.launch.environment import additions, rank_environment, write_python_shim

CORES = len(os.sched_getaffinity(0))


def test_threads_are_the_cores_shared_by_the_ranks_on_cpu_only() -> None:
    plan = LaunchPlan(run_dir=Path("/r"), devices_per_node=2)
    assert additions(plan, {}) == {"OMP_NUM_THREADS": str(max(1, CORES // 2))}
    assert additions(replace(plan, devices_per_node=10_000), {}) == {"OMP_NUM_THREADS": "1"}
    assert additions(plan, {"OMP_NUM_THREADS": "7"}) == {}
    assert additions(replace(plan, threads_per_worker=3), {"OMP_NUM_THREADS": "7"}) == {"OMP_NUM_THREADS": "3"}
    assert additions(replace(plan, device_target="Ascend"), {}) == {}


def test_the_plans_variables_win_and_null_unsets() -> None:
    plan = LaunchPlan(run_dir=Path("/r"), env={"OMP_NUM_THREADS": 5, "A": True, "GONE": None})
    found = rank_environment(plan, "id", {"GONE": "x", "KEPT": "y", "A": "old"})
    assert (found["OMP_NUM_THREADS"], found["A"], found["KEPT"]) == ("5", "True", "y")
    assert "GONE" not in found
    assert found["MINDRECIPE_RUN_ID"] == "id"
    assert found["MINDRECIPE_LAUNCHER_PID"] == str(os.getpid())
    assert found["PYTHONUNBUFFERED"] == "1"


def test_a_place_in_an_outer_cluster_job_does_not_leak_in() -> None:
    outer = {name: "9" for name in environment.FOREIGN}
    assert not set(environment.FOREIGN) & set(rank_environment(LaunchPlan(run_dir=Path("/r")), "id", outer))


def test_what_is_left_out_is_told_and_can_be_asked_for() -> None:
    plan = LaunchPlan(run_dir=Path("/r"), env={"DEVICE_ID": 2})
    outer = {"RANK_TABLE_FILE": "/x", "DEVICE_ID": "9", "HOME": "/"}
    assert environment.left_out(plan, outer) == ["RANK_TABLE_FILE"]
    assert rank_environment(plan, "id", outer)["DEVICE_ID"] == "2"


def test_ranks_find_this_package_after_what_the_user_put_first() -> None:
    found = rank_environment(LaunchPlan(run_dir=Path("/r")), "id", {"PYTHONPATH": "/mine"})["PYTHONPATH"].split(os.pathsep)
    assert found[0] == "/mine"
    assert (Path(found[-1]) / "mindrecipe" / "__init__.py").is_file()


@pytest.mark.parametrize("named", [True, False])
def test_the_python_that_msrun_finds_is_this_one(run_dir: Path, monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """Also where its folder knows it by no name that msrun accepts."""
    if not named:
        for module in ("environment", "commands"):
            monkeypatch.setattr(f"mindrecipe.launch.{module}.python_name", lambda: None)
    plan = LaunchPlan(run_dir=run_dir, devices_per_node=2)
    write_python_shim(plan)
    found = rank_environment(plan, "id", {"PATH": "/usr/bin"})
    said = subprocess.run(["python", "-c", "import sys; print(sys.prefix)"], env=found, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == sys.prefix
    assert (run_dir / "bin").exists() is not named


def test_msrun_and_ranks_are_marked(plan: Callable[..., LaunchPlan]) -> None:
    assert rank_environment(plan(2), "abc")["MINDRECIPE_RUN_ID"] == "abc"
