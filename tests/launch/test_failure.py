"""From logs and exit codes to the error a person wants to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindrecipe.launch import failure
from mindrecipe.measure.outcome import RankError
from mindrecipe.measure.record import Event

CHAINED = """\
noise RuntimeError: not this one
Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 2, in <module>
    raise error
mindspore.common.KernelError: Unsupported op [Barrier] on CPU

----------------------------------------------------
- C++ Call Stack: (For framework developers)
----------------------------------------------------
"""


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rank_3.log"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CHAINED, ("KernelError", "Unsupported op [Barrier] on CPU")),
        ("Traceback (most recent call last):\n  x\nAssertionError\n", ("AssertionError", "")),
        ("Traceback (most recent call last):\n  x\nValueError: a: b\nmore\n", ("ValueError", "a: b")),
        ("ValueError: said without a traceback\n", None),
        ("", None),
    ],
)
def test_the_last_exception_of_a_log(tmp_path: Path, text: str, found: tuple[str, str] | None) -> None:
    assert failure.last_exception(log(tmp_path, text)) == found


def test_an_old_exception_is_not_the_cause_of_a_kill(tmp_path: Path) -> None:
    error = failure.from_death(3, -9, log(tmp_path, CHAINED), 1.0)
    assert (error.type, error.rank) == ("Died", 3)
    assert error.message.startswith("killed by SIGKILL (by someone, or by the kernel for lack of memory)")


def test_the_last_words_are_told_but_not_all_of_them(tmp_path: Path) -> None:
    assert failure.from_death(3, 4, log(tmp_path, "x\nlast " + "y" * 5000 + "\n"), 1.0).message.count("y") < 300
    assert failure.from_death(3, 4, log(tmp_path, ""), 1.0).message == "left with exit code 4 before its work was done; its log is empty"


@pytest.mark.parametrize(
    ("code", "words"), [(None, "ended"), (0, "left with exit code 0"), (-11, "killed by SIGSEGV"), (-63, "killed by signal 63")]
)
def test_how_a_process_ended(code: int | None, words: str) -> None:
    assert failure.describe_exit(code) == words


def test_what_msrun_says_of_its_ranks() -> None:
    line = "[ERROR] ME(21:1,MainProcess):2026-01-01 [api.py:370] Worker process 4711 exit with exception. Error code: -9."
    assert failure.worker_exits(line) == (4711, -9)
    assert failure.worker_exits("Start worker process with rank id:0") is None


def test_the_first_error_is_the_cause_and_a_rank_counts_once() -> None:
    def error(rank: int, time: float, kind: str) -> RankError:
        return RankError(rank=rank, type=kind, message="", log="", time=time)

    ordered = failure.in_order([error(0, 3.0, "Late"), error(1, 1.0, "First"), error(1, 2.0, "Again")])
    assert [(item.rank, item.type, item.followed) for item in ordered] == [(1, "First", False), (0, "Late", True)]


def test_an_error_event_keeps_what_the_rank_said() -> None:
    detail = {"type": "Diverged", "message": "nan", "traceback": "t", "step": 7, "loss": "nan"}
    error = failure.from_event(Event(phase="error", rank=2, pid=1, time=5.0, detail=detail), Path("/l"))
    assert (error.rank, error.type, error.message, error.step, error.traceback, error.time) == (2, "Diverged", "nan", 7, "t", 5.0)
    assert error.first_line == "Diverged: nan"
