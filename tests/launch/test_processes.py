"""Owning a tree of processes by their mark, wherever they have gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from fakes import PATIENCE, wait_for

from mindrecipe.launch.processes import RUN_ID, Tree, alive, die_with, send, unclaimed_exit_code, wait_gone
from mindrecipe.launch.signals import StopSignals, exit_code

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def tree() -> Iterator[Tree]:
    tree = Tree("test-" + os.urandom(8).hex())
    yield tree
    tree.kill()


def sleeper(tree: Tree, code: str = SLEEP) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, RUN_ID: tree.run_id})


def test_children_that_left_for_sessions_of_their_own_are_found_and_killed(tree: Tree) -> None:
    """A grandchild whose parent is gone: no tree and no group leads to it any more."""
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
    assert sleeper(tree, code).wait() == 0
    wait_for(lambda: len(tree.members()) == 1)
    assert tree.kill() == []
    assert tree.members() == []


def test_processes_of_others_are_left_alone(tree: Tree) -> None:
    other = Tree("other-" + tree.run_id)
    theirs, ours = sleeper(other), sleeper(tree)
    wait_for(lambda: len(tree.members()) == len(other.members()) == 1)
    tree.kill()
    assert ours.wait() == -signal.SIGKILL
    assert theirs.poll() is None
    other.kill()
    theirs.wait()


def test_a_process_that_is_born_while_the_others_are_killed_is_caught(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    first, late = sleeper(tree), []
    wait_for(tree.members)

    def give_birth(members: list[psutil.Process], number: int) -> None:
        if not late:
            late.append(sleeper(tree))
        send(members, number)

    monkeypatch.setattr("mindrecipe.launch.processes.send", give_birth)
    assert tree.kill() == []
    assert [child.wait(PATIENCE) for child in (first, *late)] == [-signal.SIGKILL] * 2


def test_what_does_not_die_is_named(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    child = sleeper(tree)
    wait_for(tree.members)
    with monkeypatch.context() as patched:
        patched.setattr("mindrecipe.launch.processes.send", lambda members, number: None)
        assert tree.kill(timeout=0.3) == [child.pid]
    tree.kill()
    child.wait()


def test_killing_does_not_steal_the_exit_code_from_its_owner(tree: Tree) -> None:
    child = sleeper(tree)
    wait_for(tree.members)
    tree.kill()
    assert child.wait() == -signal.SIGKILL


def test_a_zombie_is_not_alive(tree: Tree) -> None:
    child = sleeper(tree, "pass")
    process = psutil.Process(child.pid)
    assert wait_gone([process], PATIENCE)
    assert psutil.pid_exists(child.pid)
    assert not alive(process)
    send([process], signal.SIGTERM)
    child.wait()
    assert not alive(process)
    send([process], signal.SIGTERM)


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9), ("", 0)])
def test_how_a_child_ended_is_known_before_its_parent_asks(tree: Tree, code: str, expected: int) -> None:
    assert unclaimed_exit_code(os.getpid()) is None
    child = sleeper(tree, code)
    assert wait_gone([psutil.Process(child.pid)], PATIENCE)
    assert unclaimed_exit_code(child.pid) == expected == child.wait()
    assert unclaimed_exit_code(child.pid) is None


def test_a_child_dies_with_its_parent(tree: Tree) -> None:
    code = (
        "import os, subprocess, sys\nfrom mindrecipe.launch.processes import die_with\n"
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], preexec_fn=die_with(os.getpid())).wait()\n"
    )
    environment = {**os.environ, RUN_ID: tree.run_id, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for(lambda: len(tree.members()) == 2)
    parent.kill()
    parent.wait()
    assert wait_gone(tree.members(), PATIENCE)


def test_a_child_of_a_parent_that_is_gone_already_does_not_start() -> None:
    child = subprocess.Popen([sys.executable, "-c", SLEEP], preexec_fn=die_with(1))  # noqa: PLW1509 - no threads here
    assert child.wait(PATIENCE) == 1


def test_signals_are_remembered_and_handlers_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(lambda: len(signals.received) == 2)
    assert signals.received == [signal.SIGINT, signal.SIGTERM]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert [exit_code(number) for number in signals.received] == [130, 143]


def test_nohup_is_respected_and_a_background_jobs_sigint_is_not() -> None:
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda: signals.received)
        assert signals.received == [signal.SIGINT]
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
