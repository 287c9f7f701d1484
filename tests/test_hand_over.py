"""launch=slurm and launch=ssh: what is written, what is started, and how it ends. With an sbatch and an ssh of the test's own."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mindrecipe.errors import UserError
from mindrecipe.launch.ssh import SshJob
from mindrecipe.measure.view import make_view
from mindrecipe.run import Run

SLURM = ["+model=llama2_7b", "parallel=semi_auto", "launch=slurm", "launch.nodes=2"]
SSH = ["+model=llama2_tiny", "parallel=data", "launch=ssh", "launch.hosts=[192.0.2.1,me@192.0.2.2]", "launch.devices_per_node=1"]
ROOT = Path(__file__).resolve().parents[1]
FREEZE = ["+model=llama2_tiny", "parallel=data", "launch.devices_per_node=2", "schedule.total_steps=3", "launch.freeze_only=true"]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """``tool("sbatch", "echo hi")`` puts a script of that name on PATH, first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, body: str) -> Path:
        path = folder / name
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def test_the_script_is_written_and_submitted(here: Path, tool: Callable[[str, str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    tool("sbatch", 'echo "Submitted batch job 7 of $1"')
    outcome = Run.from_overrides([*SLURM, 'launch.sbatch_args=["--partition=npu","--time=60"]', "run.name=big"]).launch()
    assert outcome.exit_code == 0
    (script,) = (here / "runs/slurm").glob("*.sbatch")
    text = script.read_text()
    assert f"Submitted batch job 7 of {script}" in capsys.readouterr().out
    for option in (
        "--job-name=big",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--requeue",
        "--signal=TERM@120",
        "--partition=npu",
        "--time=60",
    ):
        assert f"#SBATCH {option}\n" in text
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_what_the_script_runs_on_a_node(here: Path, tool: Callable[[str, str], Path]) -> None:
    """With an srun and a scontrol that say what they get: `train` with the node's rank and the master's address, resumable."""
    tool("scontrol", "echo localhost; seq -f node%.0f 50000")  # far more than a pipe holds: its reader must not leave early
    tool("srun", 'SLURM_NODEID=1 exec "${@:2}"')
    python = tool("python", 'printf "%s\\n" "$@"')
    Run.from_overrides([*SLURM, "launch.submit=false", "run.dir='a b'"]).launch()
    (script,) = (here / "runs/slurm").glob("*.sbatch")
    text = script.read_text().replace(sys.executable, str(python))
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, env={**os.environ, "SLURM_JOB_NODELIST": "x"})
    words = done.stdout.splitlines()
    assert {"launch.node_rank=1", "launch.master_addr=127.0.0.1", "launch.nodes=2", "launch.mode=auto", "checkpoint.resume=auto"} <= set(
        words
    )
    assert f"run.dir={here / 'a b'}" in words and "launch=slurm" not in words


def test_only_written_or_only_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Run.from_overrides([*SLURM, "launch.dry_run=true"]).launch().state == "dry_run"
    assert "#SBATCH --nodes=2" in capsys.readouterr().out and not (here / "runs").exists()
    Run.from_overrides([*SLURM, "launch.submit=false"]).launch()
    assert "to submit it: sbatch " in capsys.readouterr().out


def test_no_sbatch_and_an_sbatch_that_refuses(here: Path, tool: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tool("sbatch", "echo 'invalid partition' >&2; exit 1")
    with pytest.raises(UserError, match="sbatch: invalid partition"):
        Run.from_overrides(SLURM).launch()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="sbatch is not on PATH") as told:
        Run.from_overrides(SLURM).launch()
    assert "launch.submit=false" in (told.value.mend or "")


def test_each_host_gets_its_rank(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Run.from_overrides([*SSH, "launch.dry_run=true"]).launch().state == "dry_run"
    said = capsys.readouterr().out
    assert said.count("ssh -o BatchMode=yes") == 2
    assert all(
        word in said
        for word in ("launch.node_rank=0", "launch.node_rank=1", "launch.master_addr=192.0.2.1", "launch.nodes=2", "me@192.0.2.2")
    )
    with pytest.raises(UserError, match="no.such.host.invalid does not resolve"):
        Run.from_overrides([*SSH, "launch.hosts=[no.such.host.invalid,127.0.0.1]"]).launch()


def job(tmp_path: Path, code: str, hosts: int = 2) -> SshJob:
    return SshJob(hosts=tuple(f"host{number}" for number in range(hosts)), folder=tmp_path, command=(sys.executable, "-c", code), grace=20)


LOCAL = 'exec bash -c "${@: -1}"'


def test_both_hosts_run_and_end(tmp_path: Path, tool: Callable[[str, str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    from mindrecipe.launch.ssh import run

    tool("ssh", LOCAL)
    outcome = run(job(tmp_path, "import os, sys; print(sys.argv[-1], os.getcwd())"), make_view("plain"))
    assert outcome.exit_code == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(
        [f"launch.node_rank=0 {tmp_path}", f"host1: launch.node_rank=1 {tmp_path}"]
    )


def test_a_host_that_fails_is_named(tmp_path: Path, tool: Callable[[str, str], Path]) -> None:
    from mindrecipe.launch.ssh import run

    tool("ssh", LOCAL)
    outcome = run(job(tmp_path, "import sys; sys.exit(3 if 'rank=1' in sys.argv[-1] else 0)"), make_view("quiet"))
    assert (outcome.state, outcome.exit_code) == ("failed", 3)
    assert outcome.errors[0].message == "host1: exit code 3"


WAIT = "import signal, sys, time, pathlib; signal.signal(signal.SIGTERM, lambda *a: (pathlib.Path(sys.argv[-1]).touch(), sys.exit(143))); print('up', flush=True); time.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_hosts_end_with_the_one_that_started_them(tmp_path: Path, tool: Callable[[str, str], Path], number: int) -> None:
    """Also where it is killed: ssh's standard input closes, and the remote `train` is told to save and leave."""
    tool("ssh", LOCAL)
    code = (
        "import sys; from pathlib import Path; from mindrecipe.launch.ssh import SshJob, run; from mindrecipe.measure.view import make_view\n"
        f"job = SshJob(hosts=('a', 'b'), folder=Path({str(tmp_path)!r}), command=(sys.executable, '-c', {WAIT!r}), grace=20)\n"
        "sys.exit(run(job, make_view('plain')).exit_code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert {process.stdout.readline().strip(), process.stdout.readline().strip()} == {"up", "b: up"}
    process.send_signal(number)
    assert process.wait(200) == (143 if number == signal.SIGTERM else -9)
    process.stdout.close()
    deadline = time.monotonic() + 200
    while not all((tmp_path / f"launch.node_rank={rank}").exists() for rank in (0, 1)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["launch.master_port=9000"], ["msrun_local.sh --run-dir {run} --port 9000"]),
        (
            ["launch.nodes=2", "launch.master_addr=192.0.2.1", "launch.cluster_time_out=90"],
            [f"msrun_node.sh --nodes 2 --node-rank {node} --master-addr 192.0.2.1 --run-dir {{run}} --timeout 90" for node in (0, 1)],
        ),
        (
            ["launch=ssh", "launch.hosts=[192.0.2.1,me@192.0.2.2]"],
            [f"msrun_node.sh --nodes 2 --node-rank {node} --master-addr 192.0.2.1 --run-dir {{run}}" for node in (0, 1)],
        ),
        (
            ["launch=slurm", "launch.nodes=2", 'launch.sbatch_args=["--time=60"]'],
            ["sbatch --nodes=2 --time=60 slurm.sbatch --run-dir {run}"],
        ),
    ],
)
def test_a_run_directory_that_is_only_frozen(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], lines: list[str]) -> None:
    """Made and not started, with the command lines of the scripts that start it, which take it."""
    run_dir = here / "a run"
    outcome = Run.from_overrides([*FREEZE, *words, f"run.dir={run_dir}"]).launch()
    assert (outcome.state, outcome.exit_code) == ("frozen", 0)
    assert {path.name for path in run_dir.iterdir()} == {
        "checkpoint",
        "config.yaml",
        "lock.json",
        "logs",
        "mindformers.yaml",
        "overrides.yaml",
    }
    assert not list((run_dir / "logs").iterdir())
    printed = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if "--run-dir" in line]
    expected = [shlex.split(line.format(run=shlex.quote(str(run_dir)))) for line in lines]
    python = ["--python", sys.executable]
    assert [[Path(word).name if "/scripts/" in word else word for word in line if word not in python] for line in printed] == expected
    assert not (here / "runs/slurm").exists()
    if words[:1] != ["launch=slurm"]:
        done = subprocess.run([*printed[-1], "--dry-run"], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "mindrecipe.worker" in done.stdout, done.stderr
