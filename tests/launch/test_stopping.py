"""Ctrl-C, SIGTERM and kill -9, of the launcher, of msrun and of a rank: the exit code, the time, and what is left (nothing)."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from fakes import Launcher, processes_of, role, steps_of, summary_of, wait_for


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_all_ranks_and_says_how_to_go_on(run_dir: Path, ranks: int, number: int, code: int) -> None:
    launcher = Launcher(run_dir, ranks, FAKE_STEPS=5000, FAKE_CHECKPOINT=2, FAKE_ABREAST=1).trains()
    launcher.signal(number)
    assert launcher.ends() == code
    summary = summary_of(run_dir)
    assert (summary["state"], summary["exit_code"], summary["errors"]) == ("interrupted", code, [])
    assert Path(summary["checkpoints"][-1]).is_file()
    assert "resume     train checkpoint.resume=must" in launcher.said
    assert "Traceback" not in launcher.said


def test_without_a_checkpoint_there_is_nothing_to_resume(run_dir: Path) -> None:
    launcher = Launcher(run_dir, 1, FAKE_STEPS=5000).trains()
    launcher.signal(signal.SIGINT)
    assert launcher.ends() == 130
    assert "checkpoint.resume" not in launcher.said
    assert "no checkpoint was saved yet" in launcher.said


def test_ranks_that_save_before_they_leave_are_all_waited_for(run_dir: Path) -> None:
    """msrun kills the others when the first has left; frozen, it can't."""
    launcher = Launcher(run_dir, 3, FAKE_STEPS=5000, FAKE_TERM="save", FAKE_ABREAST=1).trains()
    launcher.signal(signal.SIGTERM)
    assert launcher.ends() == 143
    assert {path.parent.name for path in run_dir.glob("checkpoint/rank_*/*.ckpt")} == {"rank_0", "rank_1", "rank_2"}


def test_ranks_that_do_not_listen_are_killed_after_the_grace(run_dir: Path) -> None:
    launcher = Launcher(run_dir, 2, FAKE_STEPS=5000, FAKE_TERM="ignore", FAKE_ABREAST=1, stop_grace=1.5, saves=False).trains()
    began = time.monotonic()
    launcher.signal(signal.SIGTERM)
    assert launcher.ends() == 143
    assert time.monotonic() - began > 1.4
    assert "did not stop in time and was killed: rank 0, rank 1" in launcher.said
    assert "the ranks leave at their next step, nothing is saved (checkpoint=off), within" in launcher.said


def test_a_second_signal_does_not_wait(run_dir: Path) -> None:
    launcher = Launcher(run_dir, 2, FAKE_STEPS=5000, FAKE_TERM="ignore", FAKE_ABREAST=1, stop_grace=60).trains()
    launcher.signal(signal.SIGTERM)
    wait_for(lambda: "once more kills them" in launcher.said)
    launcher.signal(signal.SIGINT)
    assert launcher.ends() == 143


def test_ctrl_c_before_the_first_step(run_dir: Path) -> None:
    launcher = Launcher(run_dir, 2, FAKE_FIRST_STEP=60)
    wait_for(lambda: len(processes_of(run_dir)) == 4)
    launcher.signal(signal.SIGINT)
    assert launcher.ends() == 130
    assert summary_of(run_dir)["steps"] == 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_kill_9_of_the_launcher_ends_all(run_dir: Path, ranks: int) -> None:
    launcher = Launcher(run_dir, ranks, FAKE_STEPS=5000).trains()
    wait_for(lambda: len(processes_of(run_dir)) == (1 if ranks == 1 else ranks + 2))
    launcher.signal(signal.SIGKILL)
    launcher.ends()
    (told,) = [json.loads(line) for line in (run_dir / "attempts.jsonl").read_text().splitlines()]
    assert (told["state"], told["number"], told["ended"]) == ("running", 1, None), "nobody was left to say how it ended"
    wait_for(lambda: not processes_of(run_dir))
    done = steps_of(run_dir)
    time.sleep(0.3)
    assert steps_of(run_dir) == done


def victim(run_dir: Path, name: str) -> None:
    wait_for(lambda: [process for process in processes_of(run_dir) if role(process) == name])[0].kill()


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("msrun", "the launch: Died: msrun killed by SIGKILL"),
        ("scheduler", "the launch: Died: msrun's scheduler ended before its work was done"),
        ("rank 1", "rank 1: Died: killed by SIGKILL"),
    ],
)
def test_kill_9_of_a_part_ends_the_job_as_failed(run_dir: Path, name: str, cause: str) -> None:
    launcher = Launcher(run_dir, 2, FAKE_STEPS=5000).trains()
    victim(run_dir, name)
    assert launcher.ends() == 1
    assert f"cause      {cause}" in launcher.said
    assert summary_of(run_dir)["state"] == "failed"
