"""launch=ssh and the wrapper scripts on two hosts: two network namespaces joined by a cable, entered by an `ssh` of the test's own, or by
`ip` itself. Needs root and `ip`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mindrecipe.checkpoints.find import find
from mindrecipe.launch.processes import environment_of
from mindrecipe.measure.record import read_steps
from mindrecipe.orphans import LAUNCHER
from said import as_from_a_terminal

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and ip"),
]
TRAIN = str(Path(sys.executable).parent / "train")
SCRIPT = Path(__file__).resolve().parents[1] / "scripts/msrun_node.sh"
WORDS = ["+model=llama2_tiny", "model.num_layers=1", "parallel=data", "schedule.total_steps=4", "evaluate=off", "dataset.batch_size=4"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def cable() -> Iterator[dict[str, str]]:
    """Two namespaces by their addresses."""
    names, addresses = [f"mrs{os.getpid()}{side}" for side in "ab"], ["10.78.0.1", "10.78.0.2"]
    if subprocess.run(["ip", "netns", "add", names[0]], capture_output=True, check=False).returncode != 0:
        pytest.skip("network namespaces need the right to make them")
    ip("netns", "add", names[1])
    try:
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for name, address in zip(names, addresses, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", name)
            ip("-n", name, "link", "set", name, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield dict(zip(addresses, names, strict=True))
    finally:
        for name in names:
            ip("netns", "delete", name)


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, **tools: str) -> None:
    folder.mkdir()
    for name, text in tools.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def hosts(cable: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of two hosts, which `ssh ADDRESS SCRIPT` reaches."""
    cases = "\n".join(f"  {address}) netns={name} ;;" for address, name in cable.items())
    text = f'case "${{@: -2:1}}" in\n{cases}\nesac\nexec ip netns exec "$netns" bash -c "${{@: -1}}"'
    put_on_path(tmp_path / "bin", monkeypatch, ssh=text)
    return list(cable)


@pytest.fixture
def slurm(cable: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hosts as the nodes of a job: `srun` starts its command on both, and ends with the first that fails."""
    names = "; ".join(f"echo {address}" for address in cable)
    each = "\n".join(f'SLURM_NODEID={node} ip netns exec {name} "${{@:2}}" &' for node, name in enumerate(cable.values()))
    put_on_path(tmp_path / "bin", monkeypatch, scontrol=names, srun=f"{each}\nwait -n && wait -n")


SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@pytest.fixture
def real_ssh(cable: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The command that runs something on the first of two hosts, each with an sshd; the real ssh reaches both from there."""
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    (tmp_path / "sshd_config").write_text(
        f"HostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/user.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PermitRootLogin prohibit-password\nSetEnv PYTHONPATH={os.environ.get('PYTHONPATH', '')}:\n"
    )
    options = [f"IdentityFile={tmp_path}/user", f"UserKnownHostsFile={tmp_path}/known", "StrictHostKeyChecking=no"]
    real = f'exec {shutil.which("ssh")} -F none {" ".join(f"-o {option}" for option in options)} "$@"'
    daemons = [
        subprocess.Popen(["ip", "netns", "exec", name, str(SSHD), "-D", "-e", "-f", str(tmp_path / "sshd_config")])
        for name in cable.values()
    ]
    put_on_path(tmp_path / "bin", monkeypatch, ssh=real)
    try:
        for name in cable.values():
            listens, deadline = ["ip", "netns", "exec", name, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/22"], time.monotonic() + 200
            while subprocess.run(listens, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield ["ip", "netns", "exec", next(iter(cable.values()))]
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


@pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="there is no sshd on this machine (Debian: openssh-server)")
def test_through_a_real_sshd(real_ssh: list[str], cable: dict[str, str], tmp_path: Path) -> None:
    """The script gets through two shells; Ctrl-C at the launcher ends what runs on the other host."""
    first = [*real_ssh, TRAIN, *WORDS, "launch=ssh", f"launch.hosts=[{','.join(cable)}]", "launch.devices_per_node=1"]
    done = subprocess.run([*first, f"run.dir={tmp_path / 'a run'}"], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert len((tmp_path / "a run/metrics.jsonl").read_text().splitlines()) == 4
    words = [*first, "schedule.total_steps=100000", f"run.dir={tmp_path / 'long'}"]
    launcher = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while sum(1 for _ in read_steps(tmp_path / "long/metrics.jsonl")) < 3:
            assert launcher.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(200) == 130
        assert rank_process(tmp_path / "long", 0) is None and rank_process(tmp_path / "long", 1) is None
    finally:
        launcher.kill()


def start_script(cable: dict[str, str], run_dir: Path, node: int) -> subprocess.Popen[str]:
    """scripts/msrun_node.sh on one of two hosts; its process is the script itself, which `ip` becomes."""
    (master, _), name = cable, list(cable.values())[node]
    where = ["--nodes", "2", "--node-rank", str(node), "--master-addr", master, "--run-dir", str(run_dir), "--python", sys.executable]
    return subprocess.Popen(
        ["ip", "netns", "exec", name, str(SCRIPT), *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=as_from_a_terminal,  # noqa: PLW1509 - two system calls
    )


def job_of(script: subprocess.Popen[str], run_dir: Path) -> list[psutil.Process]:
    """What lives of the job on the host of ``script``: msrun, its scheduler, its rank."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = environment_of(process).get(LAUNCHER) == str(script.pid) and str(run_dir) in process.cmdline()
            found += [process] if mine and process.status() != psutil.STATUS_ZOMBIE else []
        except psutil.Error:
            continue
    return found


def by_scripts(cable: dict[str, str], run_dir: Path) -> None:
    """A host's script is killed while its rank starts, and the other's interrupted; then both train to the end, and are refused."""
    scripts = [start_script(cable, run_dir, node) for node in (0, 1)]
    events, deadline = [run_dir / f"logs/rank_{rank}.events.jsonl" for rank in (0, 1)], time.monotonic() + 300
    try:
        while not all(path.exists() and '"import"' in path.read_text() for path in events):
            assert all(script.poll() is None for script in scripts) and time.monotonic() < deadline
            time.sleep(0.05)
        assert [len(job_of(script, run_dir)) for script in scripts] == [3, 2]
        scripts[0].kill()
        while left := job_of(scripts[0], run_dir):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        scripts[1].send_signal(signal.SIGINT)
        assert scripts[1].wait(200) == 130 and not job_of(scripts[1], run_dir)
        scripts = [start_script(cable, run_dir, node) for node in (0, 1)]
        for script in scripts:
            out, _ = script.communicate(timeout=400)
            assert script.returncode == 0, out
        again = start_script(cable, run_dir, 1)
        assert "has trained: it has checkpoints up to step 4" in again.communicate(timeout=200)[0] and again.returncode == 2
    finally:
        for script in scripts:
            script.kill()


def test_one_command_trains_on_both(hosts: list[str], cable: dict[str, str], tmp_path: Path) -> None:
    """Two nodes, one rank each: the same losses as two ranks on one host, through ssh and through the wrapper script."""
    ssh = ["launch=ssh", f"launch.hosts=[{','.join(hosts)}]", "launch.devices_per_node=1", f"run.dir={tmp_path / 'far'}"]
    far = subprocess.run([TRAIN, *WORDS, *ssh], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert far.returncode == 0, far.stdout[-3000:] + far.stderr[-3000:]
    assert f"{hosts[1]}: " in far.stdout and "step 4/4" in far.stdout
    words = [TRAIN, *WORDS, "launch.workers=2", f"run.dir={tmp_path / 'near'}"]
    near = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert near.returncode == 0, near.stdout[-3000:] + near.stderr[-3000:]
    two = ["launch.nodes=2", "launch.devices_per_node=1", f"launch.master_addr={hosts[0]}", f"run.dir={tmp_path / 'by hand'}"]
    words = [TRAIN, *WORDS, *two, "launch.freeze_only=true"]
    frozen = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert frozen.returncode == 0 and frozen.stdout.count(str(SCRIPT)) == 2, frozen.stdout[-3000:] + frozen.stderr[-3000:]
    by_scripts(cable, tmp_path / "by hand")
    far_losses, near_losses, by_hand = (
        [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("far", "near", "by hand")
    )
    assert len(near_losses) == 4 and far_losses == near_losses and by_hand == near_losses


def rank_process(run_dir: Path, rank: int) -> psutil.Process | None:
    """The process of one rank of a run."""
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if str(run_dir) in process.cmdline() and (environment.get("MS_ROLE"), environment.get("MS_NODE_ID")) == (
                "MS_WORKER",
                str(rank),
            ):
                return process
        except psutil.Error:
            continue
    return None


def trained(run_dir: Path) -> list[tuple[int, float]]:
    """Every step that was recorded, those that were trained again included."""
    return [(record.step, record.loss) for path in sorted(run_dir.glob("metrics*.jsonl")) for record in read_steps(path)]


def test_a_slurm_job_starts_again_after_a_kill_and_loses_nothing(slurm: None, tmp_path: Path) -> None:
    """kill -9 of one host's rank (test_hosts_e2e.py kills either, with fake ranks), in the script that was written for sbatch: the losses are
    those of the run that was not killed, bit for bit."""
    words = [*WORDS, "schedule.total_steps=60", "checkpoint=steps", "checkpoint.save_steps=5"]
    near = subprocess.run(
        [TRAIN, *words, "launch.workers=2", f"run.dir={tmp_path / 'near'}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert near.returncode == 0, near.stdout[-3000:] + near.stderr[-3000:]
    far = tmp_path / "far"
    job = ["launch=slurm", "launch.submit=false", "launch.nodes=2", "launch.devices_per_node=1", "launch.max_restarts=3", f"run.dir={far}"]
    subprocess.run([TRAIN, *words, *job, "launch.restart_backoff=0"], cwd=tmp_path, capture_output=True, check=True)
    script = tmp_path / "runs/slurm/far.sbatch"
    with (tmp_path / "said.txt").open("w") as said:
        batch = subprocess.Popen(["bash", script], stdout=said, stderr=said, env={**os.environ, "SLURM_JOB_NODELIST": "both"})
    try:
        deadline = time.monotonic() + 300
        while not any(saved.step >= 10 for saved in find(far).complete):
            assert batch.poll() is None and time.monotonic() < deadline, (tmp_path / "said.txt").read_text()[-3000:]
            time.sleep(0.02)
        process = rank_process(far, 0)
        assert process is not None, "60 steps were over before"
        process.kill()
        assert batch.wait(400) == 0, (tmp_path / "said.txt").read_text()[-5000:]
    finally:
        batch.kill()
    attempts = [json.loads(line) for line in (far / "attempts.jsonl").read_text().splitlines()]
    states = [each["state"] for each in attempts]  # on a machine that is short of time an attempt may fail by itself, and be made good
    assert states[0] == "failed" and states[-1] == "completed" and attempts[1]["from_step"] >= 10, attempts
    expected = dict(trained(tmp_path / "near"))
    assert set(dict(trained(far))) == set(range(1, 61))
    assert all(expected[step] == loss for step, loss in trained(far))
    assert (tmp_path / "said.txt").read_text().count("attempt 2: resuming from step") == 2, "each host says so"
