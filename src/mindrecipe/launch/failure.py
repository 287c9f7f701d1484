"""From what a dead or failing rank left behind to the error a person wants to read."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path

from mindrecipe.measure.outcome import RankError
from mindrecipe.measure.record import Event
from mindrecipe.measure.tail import last_lines

DIVERGED = ("Diverged", "Overflow")
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure|Warning|Group))(?:: (?P<message>.*))?$")
_TRACEBACK = "Traceback (most recent call last)"
_LONGEST = 200
_WORKER_EXIT = re.compile(r"Worker process (?P<pid>\d+) exit with exception\. Error code: (?P<code>-?\d+)")


def from_event(event: Event, log: Path) -> RankError:
    """The error that a rank told of itself."""
    detail = event.detail
    step = detail.get("step")
    return RankError(
        rank=event.rank,
        type=str(detail.get("type", "Error")),
        message=str(detail.get("message", "")),
        traceback=detail.get("traceback"),
        step=step if isinstance(step, int) else None,
        log=str(log),
        time=event.time,
    )


def from_death(rank: int, code: int | None, log: Path, time: float) -> RankError:
    """The error of a rank that ended without a word in its events: its log's last exception, else how it ended.

    ``code`` is its exit code, negative for a signal, None where it is not known.
    """
    found = last_exception(log)
    if found is not None and (code is None or code > 0):
        return RankError(rank=rank, type=found[0], message=found[1], log=str(log), time=time)
    said = last_lines(log, 1)
    last = f"the last line of its log: {said[0][:_LONGEST]}" if said else "its log is empty"
    message = f"{describe_exit(code)} before its work was done; {last}"
    return RankError(rank=rank, type="Died", message=message, log=str(log), time=time)


def from_launch(code: int | None, log: Path, time: float, *, what: str = "msrun") -> RankError:
    """The error of msrun or its scheduler, when no rank is to blame."""
    found = last_exception(log)
    if found is not None and (code is None or code >= 0):
        return RankError(rank=None, type=found[0], message=f"{what}: {found[1]}", log=str(log), time=time)
    return RankError(rank=None, type="Died", message=f"{what} {describe_exit(code)} before its work was done", log=str(log), time=time)


def describe_exit(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "ended"
    if code >= 0:
        return f"left with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (" (by someone, or by the kernel for lack of memory)" if code == -signal.SIGKILL else "")


def last_exception(log: Path) -> tuple[str, str] | None:
    """Type and message of the last Python exception that ended up in a log; None if there is none."""
    lines = last_lines(log, 2000, window=256 * 1024)
    for index in range(len(lines) - 1, -1, -1):
        found = _EXCEPTION.match(lines[index])
        if found and any(_TRACEBACK in line for line in lines[max(0, index - 200) : index]):
            return found["type"].rsplit(".", 1)[-1], (found["message"] or "").strip()
    return None


def worker_exits(line: str) -> tuple[int, int] | None:
    """The pid and exit code of the rank that msrun says, in this line of its log, has failed."""
    found = _WORKER_EXIT.search(line)
    return (int(found["pid"]), int(found["code"])) if found else None


def in_order(errors: list[RankError]) -> list[RankError]:
    """One error a rank, the first one to happen first; those after it followed it."""
    first: dict[int | None, RankError] = {}
    for error in sorted(errors, key=lambda item: item.time):
        first.setdefault(error.rank, error)
    return [replace(error, followed=index > 0) for index, error in enumerate(first.values())]
