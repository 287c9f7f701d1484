"""Two hosts: two network namespaces of this machine, joined by a cable, that share the run directory. Needs root and `ip`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import Launcher, processes_of, summary_of, wait_for

from mindrecipe.measure.record import read_steps

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and ip"),
]
Host = Callable[..., Launcher]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def host(run_dir: Path) -> Iterator[Host]:
    """``host(0, FAKE_FAULT=...)`` starts the launcher of host 0, with one rank."""
    names = [f"mrt{os.getpid()}{side}" for side in "ab"]
    if subprocess.run(["ip", "netns", "add", names[0]], capture_output=True, check=False).returncode != 0:
        pytest.skip("network namespaces need the right to make them")
    ip("netns", "add", names[1])
    try:
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for number, name in enumerate(names, start=1):
            ip("-n", name, "address", "add", f"10.77.0.{number}/24", "dev", name)
            ip("-n", name, "link", "set", name, "up")
            ip("-n", name, "link", "set", "lo", "up")

        def start(rank: int, **options: object) -> Launcher:
            place = {"nodes": 2, "node_rank": rank, "master_addr": "10.77.0.1", "master_port": 8118, "netns": names[rank]}
            return Launcher(run_dir, 1, **{"real_msrun": True, **place, **options})

        yield start
    finally:
        for name in names:
            ip("netns", "delete", name)


def test_both_end_well(host: Host, run_dir: Path) -> None:
    launchers = [host(rank, FAKE_STEPS=20) for rank in (0, 1)]
    assert [launcher.ends() for launcher in launchers] == [0, 0]
    assert summary_of(run_dir)["steps"] == 20
    assert (run_dir / "summary.node_1.json").is_file()
    assert {path.name for path in (run_dir / "logs").glob("*.log")} == {
        "msrun_0.log",
        "msrun_1.log",
        "rank_0.log",
        "rank_1.log",
        "scheduler.log",
    }


@pytest.mark.parametrize("bad", [0, 1])
def test_a_rank_that_fails_on_one_host_stops_the_other_which_says_why(host: Host, run_dir: Path, bad: int) -> None:
    """msrun alone takes half a minute for it, and can't say why."""
    launchers = [host(rank, FAKE_STEPS=5000, FAKE_FAULT=f"{bad}:raise@40") for rank in (0, 1)]
    launchers[0].trains()
    assert [launcher.ends() for launcher in launchers] == [1, 1]
    for launcher in launchers:
        assert f"cause      rank {bad}: ValueError: boom-{bad}" in launcher.said


@pytest.mark.parametrize("stopped", [0, 1])
def test_ctrl_c_on_one_host_stops_both(host: Host, run_dir: Path, stopped: int) -> None:
    launchers = [host(rank, FAKE_STEPS=5000) for rank in (0, 1)]
    launchers[0].trains()
    wait_for(lambda: len(processes_of(run_dir)) == 5)
    launchers[stopped].signal(signal.SIGINT)
    assert launchers[stopped].ends() == 130
    assert launchers[1 - stopped].ends() == 1
    assert f"host {stopped} was interrupted" in launchers[1 - stopped].said


def attempts(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "attempts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("kind", ["kill", "raise"])
def test_both_start_again_from_a_checkpoint_of_both(host: Host, run_dir: Path, bad: int, kind: str) -> None:
    """Twice: at step 6 and at step 18; the other host's rank knows of nothing and must be stopped."""
    faults = {"FAKE_FAULT": f"{bad}:{kind}@6,{1 - bad}:{kind}@18", "FAKE_ONCE": 1, "FAKE_CHECKPOINT": 2, "FAKE_ABREAST": 1}
    launchers = [host(rank, real_msrun=False, FAKE_STEPS=26, max_restarts=3, **faults) for rank in (0, 1)]
    assert [launcher.ends() for launcher in launchers] == [0, 0], [launcher.said for launcher in launchers]
    assert [each["state"] for each in attempts(run_dir)] == ["failed", "failed", "completed"]
    assert [each["from_step"] for each in attempts(run_dir)] == [0, 4, 16]
    assert [record.step for record in read_steps(run_dir / "metrics.jsonl")] == list(range(1, 27)), "one line a step"
    for launcher in launchers:
        assert launcher.said.count("attempt 2: resuming from step") == launcher.said.count("attempt 3: resuming from step") == 1


def test_the_first_host_says_when_it_is_enough(host: Host, run_dir: Path) -> None:
    launchers = [host(rank, real_msrun=False, FAKE_STEPS=99, max_restarts=1, FAKE_FAULT="1:raise@3") for rank in (0, 1)]
    assert [launcher.ends() for launcher in launchers] == [1, 1]
    assert len(attempts(run_dir)) == 2
    for launcher in launchers:
        assert "launch.max_restarts=1 is used up" in launcher.said


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_signal_to_one_host_ends_the_wait_of_both(host: Host, run_dir: Path, stopped: int) -> None:
    """During the back-off before the second attempt."""
    faults = {"FAKE_FAULT": "1:raise@6", "FAKE_CHECKPOINT": 2, "max_restarts": 3, "backoff": 12}
    launchers = [host(rank, real_msrun=False, FAKE_STEPS=99, **faults) for rank in (0, 1)]
    wait_for(lambda: "restart 1 of 3" in launchers[0].said and (run_dir / "hosts/end_1.node_1.json").exists())
    launchers[stopped].signal(signal.SIGTERM)
    assert launchers[stopped].ends() == 143
    assert launchers[1 - stopped].ends() == 1
    assert f"host {stopped} was interrupted" in launchers[1 - stopped].said


def test_a_host_that_would_not_start_again_is_refused(host: Host, run_dir: Path) -> None:
    launchers = [host(rank, real_msrun=False, FAKE_STEPS=99, max_restarts=2 - 2 * rank) for rank in (0, 1)]
    assert launchers[0].ends() != 0 and launchers[1].ends() == 1
    for launcher in launchers:
        assert "host 1 was started with launch.max_restarts=0" in launcher.said
