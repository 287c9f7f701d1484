"""A rank ends with its parent: real processes, no mindspore."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import environment, run_python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")

CHILD = "from mindrecipe.worker.guard import die_with_parent; print(die_with_parent(), flush=True); import time; time.sleep(60)"
PARENT = f"""
import subprocess, sys
pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session=True, **pipes)
print(child.pid, child.stdout.readline().strip(), flush=True)
"""


def _start(**more: str) -> tuple[int, str]:
    """A parent that ends as soon as its child (in a session of its own, as msrun's) is up: the child's pid and what the guard said."""
    done = subprocess.run([sys.executable, "-c", PARENT], env=environment(**more), capture_output=True, text=True, timeout=200, check=True)
    pid, said = done.stdout.split()
    return int(pid), said


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_rank_does_not_outlive_its_parent() -> None:
    pid, said = _start()
    assert said == "True"
    ends = time.monotonic() + 100
    while _lives(pid) and time.monotonic() < ends:
        time.sleep(0.02)
    assert not _lives(pid)


def test_the_guard_can_be_turned_off() -> None:
    pid, said = _start(MINDRECIPE_PARENT_GUARD="0")
    try:
        assert said == "False"
        time.sleep(0.5)
        assert _lives(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_rank_whose_launcher_is_gone_ends_at_once(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ended = run_python("-c", CHILD, cwd=tmp_path, timeout=200, MINDRECIPE_LAUNCHER_PID=str(gone.pid))
    assert ended.returncode == -signal.SIGKILL


def test_signals_end_a_rank_even_inside_native_code(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *a: None)\n"
        "from mindrecipe.worker.guard import end_at_once_when_asked; end_at_once_when_asked(); print('up', flush=True); time.sleep(60)"
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        child = subprocess.Popen([sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(number)
        _, said = child.communicate(timeout=200)
        assert (child.returncode, said) == (-number, "")
