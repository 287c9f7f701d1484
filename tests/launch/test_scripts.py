"""scripts/msrun_local.sh and msrun_node.sh: the same command as the launcher's, arguments intact, exit codes and signals passed on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import HERE, PATIENCE, processes_of, steps_of, wait_for

from mindrecipe.launch import LaunchPlan, command_lines
from mindrecipe.launch.claim import holder
from mindrecipe.launch.ports import free_port
from said import as_from_a_terminal

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def frozen(run_dir: Path) -> Callable[..., Path]:
    """Make the run directory look frozen, with the ``launch.env`` that is given."""

    def freeze(devices: int = 2, nodes: int = 1, grace: float = 30.0, **env: Any) -> Path:
        (run_dir / "mindformers.yaml").write_text("{}")
        (run_dir / "config.yaml").write_text(yaml.safe_dump({"launch": {"env": env, "stop_grace": grace}}))
        derived = {"devices_per_node": devices, "device_num": nodes * devices, "device_target": "CPU"}
        (run_dir / "lock.json").write_text(json.dumps({"derived": derived}))
        return run_dir

    return freeze


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python whose worker and msrun are the fakes."""
    folder = tmp_path / "fake bin"
    folder.mkdir()
    (folder / "python").write_text(
        f'#!/bin/sh\nif [ "$1 $2" = "-m mindrecipe.worker" ]; then shift 2; exec {sys.executable} {HERE}/fake_worker.py "$@"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    (folder / "msrun").write_text(f'#!/bin/sh\nexec {sys.executable} {HERE}/fake_msrun.py "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder / "python"


def script(name: str, *words: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(SCRIPTS / name), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=as_from_a_terminal,  # noqa: PLW1509 - two system calls
        **options,
    )


def said(process: subprocess.Popen[str], timeout: float = PATIENCE) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def test_the_command_is_the_launchers_own(frozen: Callable[..., Path], run_dir: Path) -> None:
    frozen(4)
    code, out, err = said(script("msrun_local.sh", "--run-dir", run_dir, "--port", 9000, "--python", sys.executable, "--dry-run"))
    plan = LaunchPlan(run_dir=run_dir, devices_per_node=4, master_port=9000)
    assert (code, err) == (0, "")
    assert unquoted(out)[1:] == command_lines(plan)[0][1:]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_command_of_each_host_is_the_launchers_own(frozen: Callable[..., Path], run_dir: Path, rank: int) -> None:
    frozen(8, nodes=2)
    where = ["--nodes", 2, "--node-rank", rank, "--master-addr", "10.9.8.7", "--timeout", 99]
    code, out, _ = said(script("msrun_node.sh", "--run-dir", run_dir, *where, "--python", sys.executable, "--dry-run"))
    plan = LaunchPlan(run_dir=run_dir, nodes=2, node_rank=rank, devices_per_node=8, master_addr="10.9.8.7", cluster_time_out=99)
    assert code == 0
    assert unquoted(out)[1:] == command_lines(plan)[rank][1:]


def test_options_and_variables_of_knobs_are_passed_on(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    """As the lock has them; launch.env has the last word."""
    frozen(2, FAKE_STEPS=3, HCCL_BUFFSIZE=400)
    derived = {"devices_per_node": 2, "device_num": 2, "device_target": "CPU", "msrun_options": ["--bind_core=True", "--x=a b"]}
    derived["environment"] = {"HCCL_BUFFSIZE": "300", "HCCL_EXEC_TIMEOUT": "900"}
    (run_dir / "lock.json").write_text(json.dumps({"derived": derived}))
    words = ["--run-dir", run_dir, "--port", 9000, "--python", sys.executable, "--dry-run"]
    plan = LaunchPlan(run_dir=run_dir, devices_per_node=2, master_port=9000, msrun_args=("--bind_core=True", "--x=a b"))
    assert unquoted(said(script("msrun_local.sh", *words))[1])[1:] == command_lines(plan)[0][1:]
    (python.parent / "msrun").write_text('#!/bin/sh\necho "$HCCL_BUFFSIZE $HCCL_EXEC_TIMEOUT"\n')
    script_says = said(script("msrun_local.sh", "--run-dir", run_dir, "--python", python, "--port", free_port()))
    assert "400 900" in script_says[1] + (run_dir / "logs/msrun.log").read_text()


def unquoted(line: str) -> list[str]:
    """bash's %q quoting may be $'...', which only bash undoes."""
    return subprocess.run(["bash", "-c", f'printf "%s\\0" {line}'], capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_run_to_its_end(frozen: Callable[..., Path], run_dir: Path, python: Path, devices: int) -> None:
    frozen(devices, FAKE_STEPS=3, FAKE_CHECKPOINT=2, PATH_LIKE="a b $c {d,e}", OMP_PROC_BIND=None)
    code, out, err = said(script("msrun_local.sh", "--run-dir", run_dir, "--python", python, "--port", free_port()))
    assert (code, err) == (0, "")
    assert str(run_dir) in out
    assert steps_of(run_dir) == 3
    assert len(list(run_dir.glob("checkpoint/rank_*/*.ckpt"))) == devices


@pytest.mark.parametrize(("devices", "expected"), [(1, 3), (2, 1)])
def test_a_failure_is_passed_on(frozen: Callable[..., Path], run_dir: Path, python: Path, devices: int, expected: int) -> None:
    """msrun says 1 of any failure, after half a minute; a rank by itself says what it means."""
    frozen(devices, FAKE_FAULT=f"{devices - 1}:exit3@2", FAKE_MSRUN_WAIT=1)
    code, _, err = said(script("msrun_local.sh", "--run-dir", run_dir, "--python", python, "--port", free_port()))
    assert code == expected
    assert f"ended with exit code {expected}" in err


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_all(frozen: Callable[..., Path], run_dir: Path, python: Path, devices: int, number: int, code: int) -> None:
    frozen(devices, FAKE_STEPS=5000)
    mark = {**os.environ, "MINDRECIPE_RUN_ID": "script"}  # so that processes_of knows them
    process = script("msrun_local.sh", "--run-dir", run_dir, "--python", python, "--port", free_port(), env=mark)
    wait_for(lambda: steps_of(run_dir) > 2)
    process.send_signal(number)
    assert said(process)[0] == code
    wait_for(lambda: not processes_of(run_dir))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--bogus"], "unknown option --bogus"),
        (["--port"], "--port needs a value"),
        (["--run-dir", "{run}", "--port", "x"], "--port x is not a number"),
        (["--run-dir", "/nowhere"], "/nowhere is not a frozen run"),
        ([], "--run-dir is missing"),
        (["--run-dir", "{run}", "--devices", "0"], "--devices 0: there must be one"),
        (["--run-dir", "{run}", "--devices", "3"], "--nodes 1 with --devices 3 are 3 ranks, and the run is laid out for 2"),
    ],
)
def test_what_is_wrong_is_told_with_exit_code_2(frozen: Callable[..., Path], run_dir: Path, words: list[str], fault: str) -> None:
    frozen()
    code, out, err = said(script("msrun_local.sh", *[word.format(run=run_dir) if word == "{run}" else word for word in words]))
    assert (code, out) == (2, "")
    assert fault in err
    assert "mend:" in err and "msrun_node.sh --help" not in err


@pytest.mark.skipif(shutil.which("flock") is None, reason="there is no flock on this machine (Debian: util-linux)")
def test_a_run_directory_belongs_to_one_at_a_time(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    words = ["--run-dir", frozen(2, FAKE_STEPS=5000), "--python", python, "--port"]
    first = script("msrun_local.sh", *words, free_port())
    wait_for(lambda: steps_of(run_dir) > 2)
    code, _, err = said(script("msrun_local.sh", *words, free_port()))
    assert code == 2 and f"process {first.pid} trains in {run_dir} now" in err
    assert holder(run_dir) == str(first.pid)
    first.terminate()
    assert said(first)[0] == 143
    wait_for(lambda: holder(run_dir) is None)


def test_a_node_rank_beyond_the_hosts(frozen: Callable[..., Path], run_dir: Path) -> None:
    frozen(nodes=2)
    where = ["--nodes", 2, "--node-rank", 2, "--master-addr", "10.9.8.7"]
    assert "--node-rank 2 with --nodes 2" in said(script("msrun_node.sh", "--run-dir", run_dir, *where))[2]


def test_a_port_in_use_is_refused(frozen: Callable[..., Path], run_dir: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, _, err = said(script("msrun_local.sh", "--run-dir", frozen(), "--python", sys.executable, "--port", port))
    assert code == 2
    assert f"port {port} of this host is in use" in err


@pytest.mark.parametrize(("name", "without"), [("msrun_local.sh", {"--nodes", "--node-rank", "--master-addr"}), ("msrun_node.sh", set())])
def test_help_names_every_option(name: str, without: set[str]) -> None:
    source = (SCRIPTS / "msrun_node.sh").read_text()
    patterns = re.findall(r"^    ((?:-h \| )?--[\w-]+(?: \| --[\w-]+)*)\)", source, re.MULTILINE)
    options = set(re.findall(r"--[\w-]+", " ".join(patterns)))
    assert len(options) == 11
    code, out, _ = said(script(name, "--help"))
    assert code == 0
    assert {option for option in options if option not in out} == without


def test_the_sbatch_script_starts_each_node_with_its_rank(frozen: Callable[..., Path], run_dir: Path, tmp_path: Path) -> None:
    """With an scontrol and an srun of the test's own; sbatch runs a copy of the script, elsewhere."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "scontrol").write_text(
        f'#!/bin/sh\nif [ "$2" = job ]; then echo "   Command={SCRIPTS}/slurm.sbatch"; else printf "localhost\\nnode1\\n"; fi\n'
    )
    (folder / "srun").write_text('#!/usr/bin/env bash\nSLURM_NODEID=1 exec "${@:2}"\n')
    copy = folder / "slurm_script"
    copy.write_text((SCRIPTS / "slurm.sbatch").read_text())
    for path in folder.iterdir():
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "x"}
    words = ["--run-dir", str(frozen(nodes=2)), "--python", sys.executable, "--dry-run"]
    done = subprocess.run(
        [str(copy), *words], env={**environment, "SLURM_NNODES": "2"}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert {"--node_rank=1", "--worker_num=4", "--master_addr=127.0.0.1"} <= set(done.stdout.split())
