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
from fakes import HERE, PATIENCE, processes_of, role, steps_of, wait_for

from mindrecipe.checkpoints import manifest
from mindrecipe.launch import LaunchPlan, command_lines
from mindrecipe.launch.claim import Claim, holder
from mindrecipe.launch.environment import FOREIGN
from mindrecipe.launch.ports import free_port
from mindrecipe.launch.processes import environment_of
from mindrecipe.orphans import LAUNCHER
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


def training(run_dir: Path, python: Path, steps: int = 2, **variables: str) -> subprocess.Popen[str]:
    """A script whose ranks have made some steps."""
    environment = {**os.environ, **variables}
    process = script("msrun_local.sh", "--run-dir", run_dir, "--python", python, "--port", free_port(), env=environment)
    wait_for(lambda: steps_of(run_dir) > steps)
    return process


@pytest.mark.parametrize(
    ("devices", "number", "code"),
    [(1, signal.SIGINT, 130), (1, signal.SIGTERM, 143), (2, signal.SIGINT, 130), (2, signal.SIGTERM, 143), (2, signal.SIGHUP, 129)],
)
def test_a_signal_stops_all(frozen: Callable[..., Path], run_dir: Path, python: Path, devices: int, number: int, code: int) -> None:
    frozen(devices, FAKE_STEPS=5000)
    process = training(run_dir, python)
    wait_for(lambda: len(processes_of(run_dir)) == (1 if devices == 1 else devices + 2))
    process.send_signal(number)
    assert said(process)[0] == code
    assert not processes_of(run_dir), "it waits for their end"


@pytest.mark.parametrize("devices", [1, 2])
def test_kill_9_of_the_script_ends_all(frozen: Callable[..., Path], run_dir: Path, python: Path, devices: int) -> None:
    frozen(devices, FAKE_STEPS=5000)
    process = training(run_dir, python)
    wait_for(lambda: len(processes_of(run_dir)) == (1 if devices == 1 else devices + 2))
    process.kill()
    wait_for(lambda: not processes_of(run_dir))
    assert holder(run_dir) is None
    process.communicate()


def test_kill_9_of_msrun_ends_its_ranks(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    """Also of one that has no guard yet: the script looks for what carries its mark."""
    frozen(2, FAKE_STEPS=5000)
    process = training(run_dir, python)
    next(each for each in processes_of(run_dir) if role(each) == "msrun").kill()
    code, _, err = said(process)
    assert code == 137 and "ended with exit code 137" in err
    assert not processes_of(run_dir)


def test_ranks_know_the_script_as_their_launcher(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    """One that starts after the script has died ends by itself (worker/guard.py)."""
    frozen(2, FAKE_STEPS=5000)
    process = training(run_dir, python, RANK_ID="7", MS_COMPILER_CACHE_ENABLE="1", MINDRECIPE_LAUNCHER_PID="1")
    wait_for(lambda: {role(each) for each in processes_of(run_dir)} == {"msrun", "scheduler", "rank 0", "rank 1"})
    environments = [environment_of(each) for each in processes_of(run_dir)]
    assert {each[LAUNCHER] for each in environments} == {str(process.pid)}
    assert {each.get("RANK_ID") for each in environments} == {None, "0", "1"}, "msrun has none of another job, and gives its own"
    assert not any("MS_COMPILER_CACHE_ENABLE" in each for each in environments)
    process.send_signal(signal.SIGINT)
    assert "as another job's: RANK_ID MS_COMPILER_CACHE_ENABLE (" in said(process)[1]


def test_variables_of_another_job_are_those_that_the_launcher_leaves_out() -> None:
    (named,) = re.findall(r"^foreign=\(\n(.*?)^\)", (SCRIPTS / "msrun_node.sh").read_text(), re.MULTILINE | re.DOTALL)
    assert named.split() == list(FOREIGN)


def test_ranks_that_save_before_they_leave_are_all_waited_for(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    """msrun kills the others when the first has left; frozen, it can't. A second SIGTERM changes nothing."""
    frozen(3, FAKE_STEPS=5000, FAKE_TERM="save", FAKE_ABREAST=1, FAKE_MSRUN_POLL=0.05, FAKE_SLOW_SAVE=0.7)
    process = training(run_dir, python)
    process.terminate()
    wait_for(lambda: '"save"' in (run_dir / "logs/rank_0.events.jsonl").read_text())
    process.terminate()
    assert said(process)[0] == 143
    assert {path.parent.name for path in run_dir.glob("checkpoint/rank_*/*.ckpt")} == {"rank_0", "rank_1", "rank_2"}


def test_ranks_that_do_not_listen_are_killed_after_the_grace(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    frozen(2, grace=0.5, FAKE_STEPS=5000, FAKE_TERM="ignore")
    process = training(run_dir, python)
    process.terminate()
    code, _, err = said(process)
    assert code == 143 and "did not stop in time, and are killed: processes " in err
    assert not processes_of(run_dir)


def test_ctrl_c_ends_the_wait_for_ranks_that_save(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    frozen(2, grace=10 * PATIENCE, FAKE_STEPS=5000, FAKE_TERM="ignore")
    process = training(run_dir, python)
    process.terminate()
    assert process.stderr is not None and "SIGTERM: the ranks save" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert said(process)[0] == 143
    assert not processes_of(run_dir)


def checkpoint_of(run_dir: Path, step: int) -> None:
    manifest.begin(run_dir / "checkpoint")
    manifest.write(run_dir / "checkpoint", manifest.Manifest(step=step, rank=0, world=1, files={}))


def test_checkpoints_are_not_overwritten(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    frozen(1, FAKE_STEPS=6, FAKE_CHECKPOINT=2)
    (run_dir / "logs").mkdir()
    (run_dir / "logs/rank_0.log").write_text("of before")
    checkpoint_of(run_dir, 4)
    code, out, err = said(script("msrun_local.sh", "--run-dir", run_dir, "--python", python))
    assert (code, out) == (2, "")
    assert "it has checkpoints up to step 4, and starts after step 0" in err and "mend: a run directory that goes on" in err
    assert (run_dir / "logs/rank_0.log").read_text() == "of before" and not list(run_dir.glob("checkpoint/rank_*/*"))
    lock = json.loads((run_dir / "lock.json").read_text())
    lock["derived"]["resume"] = {"step": 4}
    (run_dir / "lock.json").write_text(json.dumps(lock))
    assert said(script("msrun_local.sh", "--run-dir", run_dir, "--python", python))[0] == 0, "one that goes on from them"
    assert (run_dir / "logs/rank_0.1.log").read_text() == "of before"
    assert [path.name for path in run_dir.glob("checkpoint/rank_0/*")] == ["fake-rank_0-6.ckpt"]


def test_options_of_msrun_are_passed_through(frozen: Callable[..., Path], run_dir: Path) -> None:
    frozen(2)
    words = ["--run-dir", run_dir, "--port", 9000, "--python", sys.executable, "--dry-run", "--", "--bind_core=True", "--x=a b", "--help"]
    plan = LaunchPlan(run_dir=run_dir, devices_per_node=2, master_port=9000, msrun_args=("--bind_core=True", "--x=a b", "--help"))
    assert unquoted(said(script("msrun_local.sh", *words))[1])[1:] == command_lines(plan)[0][1:]
    frozen(1)
    code, _, err = said(script("msrun_local.sh", *words))
    assert code == 2 and "a single rank, which needs no msrun: --bind_core=True" in err


def test_a_python_of_another_name_is_the_one_that_ranks_get(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    """msrun looks `python` up on PATH, and would find any."""
    frozen(2, FAKE_STEPS=2)
    named = python.rename(python.with_name("python3.11"))
    code, _, err = said(script("msrun_local.sh", "--run-dir", run_dir, "--python", named, "--port", free_port()))
    assert (code, err, steps_of(run_dir)) == (0, "", 2)
    assert str(named) in (run_dir / "bin/python").read_text().replace("'", "")


@pytest.mark.parametrize(("name", "text"), [("config.yaml", "launch: ["), ("config.yaml", "a: 1"), ("lock.json", '{"derived": {')])
def test_files_that_train_did_not_write_start_nothing(
    frozen: Callable[..., Path], run_dir: Path, python: Path, name: str, text: str
) -> None:
    frozen(2)
    (run_dir / name).write_text(text)
    code, out, err = said(script("msrun_local.sh", "--run-dir", run_dir, "--python", python))
    assert (code, out) == (2, "")
    assert "is not what train writes" in err and "mend: " in err and "Traceback" not in err


def test_without_msrun_nothing_is_started(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    frozen(2)
    (python.parent / "msrun").unlink()
    tools = python.parent.parent / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "dirname", "basename", "nproc"):
        (tools / name).symlink_to(str(shutil.which(name)))
    words = ["--run-dir", run_dir, "--python", python, "--port", free_port()]
    code, out, err = said(script("msrun_local.sh", *words, env={"PATH": str(tools), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}))
    assert (code, out) == (2, "")
    assert "msrun, which starts 2 ranks, is missing" in err


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


def test_a_look_at_the_lock_does_not_keep_the_script_from_it(frozen: Callable[..., Path], run_dir: Path, python: Path) -> None:
    """`mindrecipe logs -f` takes it for a moment, four times a second: here it is let go once the script has asked for it."""
    frozen(1, FAKE_STEPS=2)
    tried = run_dir / "tried"
    shell = python.read_text()
    python.write_text(shell.replace("\n", '\ncase "$2" in *fcntl*) touch "$TRIED" ;; esac\n', 1))
    with Claim(run_dir):
        words = ["--run-dir", run_dir, "--python", python, "--port", free_port()]
        process = script("msrun_local.sh", *words, env={**os.environ, "TRIED": str(tried)})
        wait_for(tried.exists)
    assert said(process)[0] == 0


def test_a_node_rank_beyond_the_hosts(frozen: Callable[..., Path], run_dir: Path) -> None:
    frozen(nodes=2)
    where = ["--nodes", 2, "--node-rank", 2, "--master-addr", "10.9.8.7"]
    assert "--node-rank 2 with --nodes 2" in said(script("msrun_node.sh", "--run-dir", run_dir, *where))[2]


@pytest.mark.parametrize(
    ("name", "fault"),
    [("127.0.1.1", "which is 127.0.1.1 for this host"), ("localhost", "which is "), ("no.such.host.invalid", "does not resolve")],
)
def test_an_address_that_other_hosts_can_not_reach(frozen: Callable[..., Path], run_dir: Path, name: str, fault: str) -> None:
    where = ["--nodes", 2, "--node-rank", 0, "--master-addr", name, "--port", free_port(), "--python", sys.executable]
    code, out, err = said(script("msrun_node.sh", "--run-dir", frozen(nodes=2), *where))
    assert (code, out) == (2, "") and fault in err and "mend: --master-addr <IP address of the first host>" in err


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


@pytest.mark.parametrize(
    ("nodes", "getent", "hostname", "master"),
    [
        (2, "10.0.0.7 STREAM node0", "10.0.0.8 172.17.0.1", "10.0.0.7"),
        (2, "127.0.1.1 STREAM node0", "10.0.0.8 172.17.0.1", "10.0.0.8"),
        (2, "127.0.1.1 STREAM node0", "", None),
        (1, "127.0.1.1 STREAM node0", "", "127.0.0.1"),
    ],
)
def test_the_sbatch_script_starts_each_node_with_its_rank(
    frozen: Callable[..., Path], run_dir: Path, tmp_path: Path, nodes: int, getent: str, hostname: str, master: str | None
) -> None:
    """With an scontrol and an srun of the test's own; sbatch runs a copy of the script, elsewhere. Debian has the node's name on 127.0.1.1."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "scontrol").write_text(
        f'#!/bin/sh\nif [ "$2" = job ]; then echo "   Command={SCRIPTS}/slurm.sbatch"; else printf "node0\\nnode1\\n"; fi\n'
    )
    (folder / "srun").write_text(f'#!/usr/bin/env bash\nSLURM_NODEID={nodes - 1} exec "${{@:2}}"\n')
    (folder / "getent").write_text(f'#!/bin/sh\necho "{getent}"\n')
    (folder / "hostname").write_text(f'#!/bin/sh\necho "{hostname}"\n')
    copy = folder / "slurm_script"
    copy.write_text((SCRIPTS / "slurm.sbatch").read_text())
    for path in folder.iterdir():
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "x"}
    words = ["--run-dir", str(frozen(nodes=nodes)), "--python", sys.executable, "--dry-run", "--", "--bind_core=True"]
    done = subprocess.run(
        [str(copy), *words], env={**environment, "SLURM_NNODES": str(nodes)}, capture_output=True, text=True, check=False, timeout=300
    )
    if master is None:
        assert (done.returncode, done.stdout) == (2, "") and "node0, has no IPv4 address that other nodes can reach" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    expected = {f"--node_rank={nodes - 1}", f"--worker_num={2 * nodes}", f"--master_addr={master}", "--bind_core=True"}
    assert expected <= set(done.stdout.split())
