"""launch=slurm and launch=ssh: what is written, what is started, and how it ends. With an sbatch and an ssh of the test's own."""

from __future__ import annotations

import ipaddress
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
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mends import quick
from mindrecipe import hand_over
from mindrecipe.config.overrides import normalize, plain
from mindrecipe.config.search_path import use_config_dir
from mindrecipe.errors import UserError
from mindrecipe.execute import _require_dir as require_dir
from mindrecipe.execute import plan_of
from mindrecipe.freeze import numbered
from mindrecipe.launch import ssh
from mindrecipe.launch.slurm import SlurmJob
from mindrecipe.launch.ssh import SshJob
from mindrecipe.measure.view import make_view
from mindrecipe.resume import decide
from mindrecipe.run import Run
from mindrecipe.runfiles import HANDED_OVER
from test_resume import SMALL, ready, saved

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
    tool("scontrol", "echo node0; seq -f node%.0f 50000")  # far more than a pipe holds: its reader must not leave early
    tool("getent", 'echo "10.0.0.7       STREAM $2"; seq -f "10.0.0.%.0f DGRAM" 50000')
    tool("hostname", "echo 10.9.9.9")
    tool("srun", 'SLURM_NODEID=1 exec "${@:2}"')
    python = tool("python", 'printf "%s\\n" "$@"')
    Run.from_overrides([*SLURM, "launch.submit=false", "run.dir='a b'"]).launch()
    (script,) = (here / "runs/slurm").glob("*.sbatch")
    text = script.read_text().replace(sys.executable, str(python))
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, env={**os.environ, "SLURM_JOB_NODELIST": "x"})
    words = done.stdout.splitlines()
    assert {"launch.node_rank=1", "launch.master_addr=10.0.0.7", "launch.nodes=2", "launch.mode=auto", "checkpoint.resume=auto"} <= set(
        words
    )
    assert f'run.dir="{here}/a b"' in words and "launch=slurm" not in words


@pytest.mark.parametrize(
    ("getent", "hostname", "address"),
    [
        ("echo '127.0.1.1 STREAM node0'", "echo 'fd00::1 10.0.0.8 172.17.0.1 '", "10.0.0.8"),
        ("exit 2", "echo 10.0.0.9", "10.0.0.9"),
        ("echo '127.0.1.1 STREAM node0'", "echo", None),
        ("echo '127.0.1.1 STREAM node0'", "echo 'hostname: invalid option' >&2; exit 1", None),
    ],
)
def test_the_address_of_the_first_node_is_one_that_others_reach(
    here: Path, tool: Callable[[str, str], Path], getent: str, hostname: str, address: str | None
) -> None:
    """Debian maps a host's own name to 127.0.1.1, and the script asks for its own."""
    tool("scontrol", "echo node0; echo node1")
    tool("getent", getent)
    tool("hostname", hostname)
    tool("srun", 'echo "master: $MASTER"')
    job = SlurmJob(name="x", nodes=2, folder=here, logs=here, command=("train",), resume="checkpoint.resume=auto")
    environment = {**os.environ, "SLURM_JOB_NODELIST": "x"}
    done = subprocess.run(["bash", "-c", job.script()], capture_output=True, text=True, check=False, env=environment)
    if address is None:
        assert (done.returncode, done.stdout) == (2, "") and "node0, has no IPv4 address that other nodes can reach" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, f"master: {address}\n")


@pytest.fixture
def two_tools(tool: Callable[[str, str], Path]) -> None:
    """`srun`, and a `train` that prints its words."""
    tool("srun", 'exec "${@:2}"')
    tool("train", 'printf "%s\\0" "$@"')


@pytest.fixture
def starts(tool: Callable[[str, str], Path]) -> Callable[[Path], list[str]]:
    """``starts(script)`` runs it as Slurm does; the words that `train` gets on the node."""
    tool("srun", 'SLURM_NODEID=0 exec "${@:2}"')
    python = tool("python", f'printf "%s" "${HANDED_OVER}" > told; printf "%s\\0" "$@"')

    def start(script: Path) -> list[str]:
        text = script.read_text(encoding="utf-8").replace(sys.executable, str(python))
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
        return done.stdout.split("\0")[2:-1]  # -c and its program

    return start


def handed_over(*overrides: str) -> Path:
    """The script of a job of one node on CPU, whose data is not built yet."""
    quick("+model=llama2_tiny", *SMALL, "launch=slurm", "launch.submit=false", "launch.devices_per_node=1", *overrides).launch()
    (script,) = Path("runs/slurm").glob("*.sbatch")
    return script


def on_the_node(words: list[str]) -> Run:
    facts = ready().derived.dataset
    assert facts is not None
    return quick(*words).with_dataset(facts)


@pytest.mark.parametrize("name", ["far", "far à [1] (x)=y"])
def test_a_job_that_starts_again_goes_on_from_its_last_checkpoint(here: Path, starts: Callable[[Path], list[str]], name: str) -> None:
    """Requeued, or its script submitted again: docs/launch.md promises it for each value of checkpoint.resume."""
    script = handed_over(f"run.dir='{name}'")
    assert decide(on_the_node(starts(script)).derived).resume is None
    path = saved(ready(), here / name, 10)
    for step in (20, 30):
        start = decide(on_the_node(starts(script)).derived)
        assert start.resume is not None and start.continues == path and start.resume.step == step - 10
        path = saved(ready(), numbered(here / name), step)
        os.utime(path / "lock.json", (2e9 + step, 2e9 + step))


@pytest.mark.parametrize("length", ["schedule.total_steps=50", "schedule.total_steps=null"])
@pytest.mark.parametrize("named", ["path", "step"])
def test_a_job_starts_from_a_named_place_once(here: Path, starts: Callable[[Path], list[str]], named: str, length: str) -> None:
    """A second start loses nothing: neither what the first has trained, nor, where it left no checkpoint, the named place."""
    old = saved(ready(), here / "old", 10)
    saved(ready(), old, 20)
    given, mine = (["checkpoint.resume=old/checkpoint/rank_0/x_rank_0-1_10.ckpt", "run.dir=far"], here / "far")
    if named == "step":
        given, mine = ["checkpoint.resume=10", "run.dir=old"], here / "old-2"
    script = handed_over(*given, length)

    def start() -> Run:
        run = on_the_node(starts(script))
        require_dir(run)
        begins = decide(run.derived)
        assert begins.resume is not None and begins.resume.step == 10 and begins.resume.folder == str(old / "checkpoint"), begins
        return run

    first = start()
    assert start().derived.config.run.dir == str(mine), "requeued before it had a run directory: the same again"
    first.freeze(mine, decide(first.derived))
    assert decide(start().derived).replaces == mine, "it ended before its first checkpoint"
    saved(ready(), mine, 40)
    again = on_the_node(starts(script))
    require_dir(again)
    later = decide(again.derived)
    assert later.resume is not None and later.continues == mine and later.resume.step == 40


@pytest.mark.parametrize("mode", ["slurm", "ssh"])
def test_a_step_of_a_run_of_the_name_is_where_a_job_of_epochs_begins(here: Path, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without run.dir, and with steps that are counted once the data is there: not from that run's newest checkpoint."""
    old = saved(ready(), here / "runs/llama2_tiny/x", 10)
    saved(ready(), old, 20)
    more = ["launch=ssh", "launch.hosts=[127.0.0.1]"] if mode == "ssh" else ["launch=slurm"]
    words = [*more, "launch.devices_per_node=1", "launch.dry_run=true", "checkpoint.resume=10", "schedule.total_steps=null"]
    quick("+model=llama2_tiny", *SMALL, *words).launch()
    said = capsys.readouterr().out
    assert f"checkpoint.resume={old}/checkpoint/rank_0/x_rank_0-1_10.ckpt" in said and f"run.dir={old}" not in said


def test_a_run_directory_that_is_there_is_no_job_s_unless_it_is_to_go_on(here: Path) -> None:
    """As everywhere else; the script of a job that has made it, submitted again, goes on (see above)."""
    saved(ready(), here / "far", 10)
    with pytest.raises(UserError, match="run directory .*far exists"):
        handed_over("run.dir=far", "checkpoint.resume=never")
    assert not (here / "runs").exists()
    handed_over("run.dir=far", "checkpoint.resume=auto")


def test_another_attempt_of_a_job_that_goes_on_from_a_named_place_keeps_it(here: Path) -> None:
    """The second start (auto) began where the first had, and its ranks failed before a checkpoint: not from scratch then."""
    old = saved(ready(), here / "old", 10)
    run = ready("run.dir=far", "checkpoint.resume=auto")
    path = run.freeze(here / "far", decide(ready("checkpoint.resume=old").derived))
    start = decide(run.derived, path)
    assert start.resume is not None and start.resume.folder == str(old / "checkpoint")
    (path / "lock.json").write_text("{")
    with pytest.raises(UserError, match="says what the run there was started from"):
        decide(run.derived)


@pytest.mark.parametrize("mode", ["slurm", "ssh"])
@pytest.mark.parametrize("resume", ["auto", "must", "10"])
def test_runs_of_the_name_are_looked_at_before_hosts_are_given_a_directory(
    here: Path, mode: str, resume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without run.dir: the hosts would look beside the one that they are given only, and find nothing."""
    old = saved(ready(), here / "runs/llama2_tiny/x", 10)
    more = ["launch=ssh", "launch.hosts=[127.0.0.1]"] if mode == "ssh" else ["launch=slurm"]
    words = [*more, "launch.devices_per_node=1", "launch.dry_run=true"]
    ready(*words, f"checkpoint.resume={resume}").launch()
    said = capsys.readouterr().out
    assert f"checkpoint.resume={old}/checkpoint/rank_0/x_rank_0-1_10.ckpt" in said
    if resume == "auto":
        saved(ready(), old, 50)
        assert ready(*words, "checkpoint.resume=auto").launch().exit_code == 0
        assert "nothing to do" in capsys.readouterr().out


def test_a_run_that_only_lacks_its_evaluation_is_handed_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = here / "held.mindrecord"
    held.touch()
    words = ["launch=slurm", "launch.nodes=1", "launch.devices_per_node=1", "launch.dry_run=true", "checkpoint.resume=auto"]
    old = saved(ready(heldout=(str(held),)), here / "runs/llama2_tiny/x", 50)
    assert ready(*words, heldout=(str(held),)).launch().exit_code == 0
    said = capsys.readouterr().out
    assert f"run.dir={old}" in said and "checkpoint.resume=auto" in said and "nothing to do" not in said


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="/"), min_size=1, max_size=12)


def sbatch_word(line: str) -> str:
    """The first word of an #SBATCH line as Slurm reads it (get_argument of its src/sbatch/opt.c)."""
    word, quote, letters = "", "", iter(line)
    for letter in letters:
        if letter == "\\":
            word += next(letters)
        elif letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote and (letter == "#" or letter.isspace()):
            break
        else:
            word += letter
    return word


@settings(max_examples=40)
@given(name=NAMES, folder=NAMES)
@example(name="my run", folder="a b=(c [d] {e}")
@example(name="${x}", folder="\\${x}")
@example(name='it\'s "so" \\', folder="é数, #x ~")
@example(name="1e3", folder="null")
def test_any_name_survives_the_script_and_the_commands(here: Path, two_tools: None, name: str, folder: str) -> None:
    """Through a shell, sbatch's own reading of a line, and Hydra's grammar: what was typed arrives."""
    place = Path("/no/such") / folder
    job = SlurmJob(
        name=name, nodes=1, folder=here, logs=place, command=("train", f"run.dir={plain(str(place))}"),
        resume="checkpoint.resume=auto", first=(f"checkpoint.resume={plain(name)}", place),
    )  # fmt: skip
    options = [sbatch_word(line.removeprefix("#SBATCH ")) for line in job.script().split("\n") if line.startswith("#SBATCH ")]
    assert options[0] == f"--job-name={name}" and options[3] == f"--output={str(place).replace('%', '%%')}/slurm-%j.out"
    done = subprocess.run(["bash", "-c", job.script()], capture_output=True, check=True)
    read = {}
    for word in normalize(done.stdout.decode().split("\0")[:-1]).overrides:
        parsed = OverridesParser.create().parse_override(word)
        read[parsed.key_or_group] = OmegaConf.create({"x": parsed.value()}).x
    assert read == {"run.dir": str(place), "checkpoint.resume": name}


def test_a_line_break_is_no_part_of_a_script(here: Path) -> None:
    with pytest.raises(UserError, match="can't hold"):
        ready("launch=slurm", "launch.submit=false", "launch.devices_per_node=1", 'launch.sbatch_args=["--comment=a\nb"]').launch()
    assert not (here / "runs").exists()


def test_the_hint_of_a_job_is_the_command_that_started_it(
    here: Path, starts: Callable[[Path], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a host was given starts one host: pasted back it would wait for the others."""
    (here / "mine/model").mkdir(parents=True)
    use_config_dir(here / "mine")
    script = handed_over("run.dir='a b'", "run.seed=7", "checkpoint.resume=never")
    words = starts(script)
    assert words[:2] == ["--config-dir", str(here / "mine")]
    monkeypatch.setenv(HANDED_OVER, (here / "told").read_text())
    hint = shlex.split(plan_of(on_the_node(words[2:]), here / "a b").resume_hint or "")
    assert {"launch=slurm", "launch.submit=false", "run.seed=7", f'run.dir="{here}/a b"', "checkpoint.resume=must"} <= set(hint)
    assert not [word for word in hint if word.startswith(("launch.mode", "launch.node_rank", "checkpoint.resume=never"))]
    assert hint[-2:] == ["--config-dir", str(here / "mine")]
    path = saved(ready(), here / "a b", 10)
    start = decide(on_the_node(hint[1:-2]).derived)
    assert start.continues == path


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


@pytest.mark.parametrize("more", [["launch.dry_run=true"], ["launch.freeze_only=true"]])
def test_the_first_host_s_own_name_may_be_a_loopback_address_for_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """Debian maps a host's own name to 127.0.1.1: the others are told an address of its interfaces."""
    addresses = {"node0": "127.0.1.1", "node1": "192.0.2.2"}
    monkeypatch.setattr(hand_over, "resolve", lambda name: ipaddress.ip_address(addresses[name]))
    monkeypatch.setattr(hand_over, "own_addresses", lambda: ["fd00::7", "192.0.2.7", "127.0.0.1", "fe80::1"])
    words = [*FREEZE, "launch=ssh", "launch.hosts=[me@node0,node1]", "run.dir=x"]
    Run.from_overrides([word for word in words if "freeze_only" not in word] + more).launch()
    said = capsys.readouterr().out
    assert said.count("192.0.2.7") == 2 and "127.0.1.1" not in said
    monkeypatch.setattr(hand_over, "own_addresses", lambda: ["127.0.0.1", "::1", "fe80::1"])
    with pytest.raises(UserError, match="me@node0 is 127.0.1.1 for this host") as told:
        Run.from_overrides([*SSH, "launch.hosts=[me@node0,node1]"]).launch()
    assert told.value.mend == "launch.hosts=[<its address>,node1]"


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


@pytest.mark.parametrize(("code", "meaning"), [(2, ""), (255, ": ssh did not reach it, or lost it")])
def test_a_host_that_can_not_start_stops_the_others(
    tmp_path: Path,
    tool: Callable[[str, str], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    meaning: str,
) -> None:
    """Refused there, or not to be reached: the others would wait for it as long as the cluster does."""
    monkeypatch.setattr(ssh, "_SETTLE", 0.1)
    waits = WAIT.replace("print('up', flush=True)", "pathlib.Path('up').touch()")
    tool(
        "ssh",
        f"case $* in *host1*) until [ -e {tmp_path}/up ]; do sleep 0.05; done; for n in $(seq 20); do echo line $n; done; echo 'no way' >&2; exit {code};; esac; {LOCAL}",
    )
    outcome = ssh.run(job(tmp_path, waits), make_view("quiet"))
    assert (outcome.state, outcome.exit_code) == ("failed", code)
    assert (tmp_path / "launch.node_rank=0").exists(), "told to save and leave, not killed"
    said = capsys.readouterr().out
    told = said[said.index(f"host1 failed: exit code {code}{meaning}\n") :]
    assert told.splitlines()[1:13] == [f"  line {number}" for number in range(10, 21)] + ["  no way"]
    assert "stopping host0" in told and f"failed: host1: exit code {code}{meaning} (then host0: exit code 143)" in told


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


def test_ctrl_c_reaches_a_host_that_starts_no_ranks_yet(tmp_path: Path, tool: Callable[[str, str], Path]) -> None:
    """While its data is built, or it waits for the others: the shell of ssh has it in the background, where SIGINT is ignored."""
    tool("ssh", LOCAL)
    builds = "import time; from mindrecipe.cli.console import run_guarded; run_guarded(lambda: print('up', flush=True) or time.sleep(600))"
    code = (
        "import os, sys; from pathlib import Path; from mindrecipe.launch.ssh import SshJob, run; from mindrecipe.measure.view import make_view\n"
        f"command = ('env', '{HANDED_OVER}=[]', sys.executable, '-c', {builds!r})\n"
        f"job = SshJob(hosts=('a', 'b'), folder=Path({str(tmp_path)!r}), command=command, grace=500)\n"
        "outcome = run(job, make_view('plain')); print(outcome.state, flush=True); sys.exit(outcome.exit_code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert {process.stdout.readline().strip(), process.stdout.readline().strip()} == {"up", "b: up"}
    process.send_signal(signal.SIGINT)
    assert process.wait(200) == 130
    said = process.stdout.read().splitlines()
    process.stdout.close()
    assert sorted(said) == ["b: interrupted", "interrupted", "interrupted"]


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
