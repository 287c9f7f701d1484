"""Environment variables and options of msrun that knobs stand for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mends import LARGE, TINY, quick
from mindrecipe.execute import plan_of
from mindrecipe.launch import command_lines, dry_run
from mindrecipe.launch.environment import additions
from mindrecipe.lower.outside import environment, msrun_options
from mindrecipe.run import Run


def variables(*overrides: str) -> dict[str, str]:
    return environment(quick(*LARGE, *overrides).derived)


PER_HOST = {"DEVICE_NUM_PER_NODE": "8"}


@pytest.mark.parametrize(
    ("override", "seconds"),
    [
        ("launch.cluster_time_out=600", "600"),
        ("launch.cluster_time_out=900", "900"),
        ("launch.cluster_time_out=30", "120"),  # HCCL takes no less
        ("launch.cluster_time_out=90000", "7200"),
        ("launch.hccl_connect_timeout=777", "777"),
    ],
)
def test_devices_wait_for_each_other_as_long_as_their_processes_do(override: str, seconds: str) -> None:
    assert variables(override) == {"HCCL_CONNECT_TIMEOUT": seconds, **PER_HOST}


def test_what_the_shell_says_stays() -> None:
    derived = quick(*LARGE).derived
    derived = replace(derived, machine=replace(derived.machine, environment={"HCCL_CONNECT_TIMEOUT": "1000"}))
    assert environment(derived) == PER_HOST


QWEN = ("+model=qwen3_8b", "parallel=semi_auto", "amp=O2", "device=ascend_910c")
HOSTS = ("launch.nodes=2", "launch.master_addr=10.0.0.1")


@pytest.mark.parametrize(
    ("overrides", "devices", "shared"),
    [
        (QWEN, "16", None),  # on one host, where all disks are shared
        ((*QWEN, *HOSTS), "16", "/run/1"),
        ((*LARGE, *HOSTS), "8", None),  # .ckpt: each rank has a folder, nobody judges the disk
    ],
)
def test_mindformers_finds_the_run_directory_shared(overrides: tuple[str, ...], devices: str, shared: str | None) -> None:
    """It takes eight devices for a host, and knows three file systems: elsewhere its first save would raise."""
    found = environment(quick(*overrides).derived, Path("/run/1"))
    assert (found["DEVICE_NUM_PER_NODE"], found.get("SHARED_PATHS")) == (devices, shared)


def test_what_the_shell_calls_shared_stays_so() -> None:
    derived = quick(*QWEN, *HOSTS).derived
    derived = replace(derived, machine=replace(derived.machine, environment={"SHARED_PATHS": "/mnt/data,/mnt/more"}))
    assert environment(derived, Path("/run/1"))["SHARED_PATHS"] == "/mnt/data,/mnt/more,/run/1"
    assert "SHARED_PATHS" not in environment(derived)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("launch.hccl_exec_timeout=0", ("HCCL_EXEC_TIMEOUT", "0")),
        ("launch.hccl_buffsize=300", ("HCCL_BUFFSIZE", "300")),
        ("launch.hccl_deterministic=off", ("HCCL_DETERMINISTIC", "false")),
        ("launch.hccl_deterministic=on", ("HCCL_DETERMINISTIC", "true")),
        ("launch.hccl_deterministic=strict", ("HCCL_DETERMINISTIC", "strict")),
    ],
)
def test_each_knob_is_its_variable(override: str, expected: tuple[str, str]) -> None:
    assert expected in variables(override).items()


def test_on_the_cpu_there_is_no_hccl() -> None:
    assert environment(quick(TINY, "parallel=data", "launch.workers=2", "launch.hccl_buffsize=300").derived) == {}


def test_options_of_msrun(tmp_path: Path) -> None:
    words = ["launch.bind_core=true", f"launch.rank_table={tmp_path}/t.json", 'launch.msrun_args=["--bind_numa=True"]']
    assert msrun_options(quick(*LARGE, *words).derived) == ["--bind_core=True", f"--rank_table_file={tmp_path}/t.json", "--bind_numa=True"]
    assert msrun_options(quick(*LARGE).derived) == []


def test_a_launch_has_them_and_a_dry_run_shows_them(tmp_path: Path) -> None:
    run: Run = quick(*LARGE, "launch.bind_core=true", "launch.hccl_buffsize=300", "launch.env.HCCL_BUFFSIZE=400")
    plan = replace(plan_of(run, tmp_path), msrun=("msrun",))
    assert "--bind_core=True" in command_lines(plan)[0]
    assert additions(plan, {})["HCCL_BUFFSIZE"] == "400", "launch.env has the last word"
    (line,) = [line for line in dry_run.lines(plan, {}) if not line.startswith("#")]
    assert "HCCL_CONNECT_TIMEOUT=600" in line and "--bind_core=True" in line
