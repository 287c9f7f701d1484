"""Hosts between two attempts: what speaks against another one, and a host that is gone. With real processes: test_hosts_e2e.py."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import Streams

from mindrecipe.errors import UserError
from mindrecipe.launch import LaunchPlan, RestartPolicy, peers, together
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.signals import StopSignals
from mindrecipe.launch.together import Together
from mindrecipe.measure.outcome import Outcome, RankError

Plan = Callable[..., LaunchPlan]
TWICE = RestartPolicy(max_restarts=2)


def host(plan: Plan, node: int, **options: object) -> Together:
    asked = plan(1, nodes=2, node_rank=node, **{"restarts": TWICE, **options})
    return Together(asked, Peers(asked), Streams().view(), StopSignals())


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "GONE", 0.5)
    monkeypatch.setattr(together, "_LOOK_EVERY", 0.05)


def test_one_host_waits_for_nobody(plan: Plan) -> None:
    alone = plan(1, restarts=TWICE)
    hosts = Together(alone, Peers(alone), Streams().view(), StopSignals())
    hosts.gather()
    assert hosts.all_stopped() is None
    assert not (alone.run_dir / "hosts").exists()


def test_a_host_that_does_not_come(plan: Plan) -> None:
    first = host(plan, 0, cluster_time_out=1)
    with first.peers, pytest.raises(UserError, match="host 1 did not come to .* within 1 s") as told:
        first.gather()
    assert "that all hosts share" in (told.value.mend or "")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("end", "why"),
    [
        (Outcome(state="failed", exit_code=1, errors=(RankError(rank=1, type="Died", message="m", log="l", time=1.0),)), None),
        (Outcome(state="completed", exit_code=0), None),
        (Outcome(state="interrupted", exit_code=130), "host 1 was interrupted"),
        (
            Outcome(state="failed", exit_code=1, errors=(RankError(rank=1, type="DiskFull", message="m", log="l", time=1.0),)),
            "host 1: DiskFull: a restart makes no room on the disk",
        ),
    ],
)
def test_what_another_hosts_end_means(plan: Plan, end: Outcome, why: str | None) -> None:
    first, second = host(plan, 0), host(plan, 1)
    with first.peers, second.peers:
        second.peers.ended(end)
        assert first.all_stopped() == why


@pytest.mark.usefixtures("soon")
def test_a_host_that_is_gone_is_not_waited_for(plan: Plan) -> None:
    """Its launcher was killed: no end of its attempt, no sign of life."""
    first = host(plan, 0)
    with first.peers:
        with host(plan, 1).peers:
            pass
        began = time.monotonic()
        assert first.all_stopped() == "host 1 is gone: no sign of life for 0 s"
        assert time.monotonic() - began > 0.5


@pytest.mark.usefixtures("soon")
def test_what_the_first_host_says_is_done(plan: Plan) -> None:
    first, second = host(plan, 0), host(plan, 1)
    with first.peers, second.peers:
        first.peers.next(("resuming from step 4", "so there"))
        assert second.follow().wait == 0.0 and second.follow().why == "resuming from step 4; so there"
        second.peers.next(())
        first.peers.over("that was all")
        assert (second.follow().wait, second.follow().why) == (None, "that was all")


@pytest.mark.usefixtures("soon")
def test_a_first_host_that_is_gone_ends_the_wait(plan: Plan) -> None:
    second = host(plan, 1)
    with second.peers:
        assert second.follow().why == "not started again: host 0 is gone: no sign of life for 0 s"


def test_a_fault_of_the_first_host_ends_the_others(plan: Plan) -> None:
    first, second = host(plan, 0), host(plan, 1)
    with second.peers:
        with pytest.raises(ValueError, match="a fault"), first.peers:
            raise ValueError("a fault")
        end = second.peers.end(0)
        assert end is not None and (end["state"], end["error"]["message"]) == ("failed", "a fault")
        assert second.follow().why == "host 0 ended: ValueError: a fault"


def test_without_restarts_nobody_waits(plan: Plan) -> None:
    second = host(plan, 1, restarts=RestartPolicy())
    assert second.follow().wait is None


@pytest.mark.parametrize("failing", ["utime", "fsync"])
@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOSPC])
def test_signs_of_life_go_on_whatever_one_of_them_meets(plan: Plan, monkeypatch: pytest.MonkeyPatch, failing: str, number: int) -> None:
    """A stale handle, an error of the network's, a full disk as it comes again: this host lives, and is not gone to the others."""
    monkeypatch.setattr(peers, "BEAT", 0.01)
    said: list[str] = []
    asked = plan(1, nodes=2, node_rank=1)
    bad, real = threading.Event(), getattr(os, failing)
    met = threading.Semaphore(0)

    def fail(*given: Any) -> None:
        if bad.is_set():
            met.release()
            raise OSError(number, os.strerror(number))
        real(*given)

    monkeypatch.setattr(os, failing, fail)
    with Peers(asked, said.append):
        here = asked.run_dir / "hosts/here.node_1.json"
        bad.set()
        if failing == "fsync":  # the first host has set the folder aside
            here.unlink()
        for _ in range(3):
            assert met.acquire(timeout=100)
        bad.clear()
        deadline = time.monotonic() + 100
        while not here.exists():
            assert time.monotonic() < deadline, "the beat has ended"
            time.sleep(0.01)
        seen = here.stat().st_mtime_ns
        while here.stat().st_mtime_ns == seen:
            assert time.monotonic() < deadline, "the beat has ended"
            time.sleep(0.01)
    assert len(said) == 1 and os.strerror(number) in said[0]


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_a_file_that_can_not_be_read_just_now_is_read_at_the_next_look(plan: Plan, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    first, second = host(plan, 0), host(plan, 1)
    with first.peers, second.peers:
        second.peers.ended(Outcome(state="completed", exit_code=0))

        def fail(*given: Any, **more: Any) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as broken:
            broken.setattr(Path, "read_text", fail)
            broken.setattr(Path, "stat", fail)
            assert first.peers.end(1) is None and first.peers.here() == {} and first.peers.sign_of_life(1) == 0
        assert first.peers.end(1) is not None and first.peers.sign_of_life(1) != 0
