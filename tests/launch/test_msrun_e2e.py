"""The real msrun of mindspore 2.9.0, with fake ranks: what is said of it in launch/ is true, and its traps are handled."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import Launcher, Streams, processes_of, role, summary_of, wait_for

from mindrecipe.launch import LaunchPlan, launch

pytestmark = pytest.mark.e2e


def test_a_run_to_its_end(plan: Callable[..., LaunchPlan], run_dir: Path, streams: Streams) -> None:
    outcome = launch(plan(2, real_msrun=True), streams.view())
    assert (outcome.state, outcome.exit_code, outcome.notes) == ("completed", 0, ())
    logs = {path.name for path in (run_dir / "logs").iterdir()}
    assert {"rank_0.log", "rank_1.log", "scheduler.log", "msrun.log"} <= logs
    assert "python" in (run_dir / "logs" / "rank_1.log").read_text()


@pytest.mark.parametrize(("fault", "kind"), [("1:raise@2", "ValueError"), ("1:kill@2", "Died"), ("1:import@0", "ModuleNotFoundError")])
def test_the_first_failing_rank_is_told_at_once(plan: Callable[..., LaunchPlan], streams: Streams, fault: str, kind: str) -> None:
    outcome = launch(plan(2, real_msrun=True, FAKE_STEPS=5000, FAKE_FAULT=fault), streams.view())
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert (outcome.errors[0].rank, outcome.errors[0].type, outcome.stopped) == (1, kind, (0,))


def test_an_msrun_that_fails_by_itself(plan: Callable[..., LaunchPlan], streams: Streams) -> None:
    outcome = launch(plan(2, real_msrun=True, cluster_time_out="soon"), streams.view())
    assert (outcome.state, outcome.exit_code, outcome.errors[0].rank) == ("failed", 1, None)
    assert "msrun left with exit code 2" in outcome.errors[0].message


@pytest.mark.parametrize(("number", "code", "state"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "interrupted")])
def test_a_signal(run_dir: Path, number: int, code: int, state: str) -> None:
    launcher = Launcher(run_dir, 2, real_msrun=True, FAKE_STEPS=5000, FAKE_TERM="save", FAKE_ABREAST=1).trains()
    launcher.signal(number)
    assert launcher.ends() == code
    assert summary_of(run_dir)["state"] == state
    # a scheduler's notice saves; Ctrl-C does not wait for a save
    assert len(list(run_dir.glob("checkpoint/rank_*/*.ckpt"))) == (2 if number == signal.SIGTERM else 0)


@pytest.mark.parametrize("name", ["launcher", "msrun", "rank 0", "scheduler"])
def test_kill_9_leaves_nothing(run_dir: Path, name: str) -> None:
    launcher = Launcher(run_dir, 2, real_msrun=True, FAKE_STEPS=5000).trains()
    wait_for(lambda: sorted(map(role, processes_of(run_dir))) == ["msrun", "rank 0", "rank 1", "scheduler"])
    if name == "launcher":
        launcher.signal(signal.SIGKILL)
    else:
        next(process for process in processes_of(run_dir) if role(process) == name).kill()
    assert launcher.ends() == (-signal.SIGKILL if name == "launcher" else 1)
    wait_for(lambda: not processes_of(run_dir))


def test_two_launches_at_once_do_not_share_a_port(tmp_path: Path) -> None:
    """With msrun's fixed default both would die."""
    folders = [tmp_path / name / "run" for name in ("one", "two")]
    for folder in folders:
        folder.mkdir(parents=True)
    gate = tmp_path / "gate"
    launchers = [Launcher(folder, 2, real_msrun=True, FAKE_STEPS=9, FAKE_GATE=gate) for folder in folders]
    for launcher in launchers:
        launcher.trains(2)
    words = [next(process for process in processes_of(folder) if role(process) == "msrun").cmdline() for folder in folders]
    gate.touch()
    assert len({word for line in words for word in line if word.startswith("--master_port=")}) == 2
    assert [launcher.ends() for launcher in launchers] == [0, 0]
