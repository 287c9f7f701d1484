"""The folder of a measurement: one process measures in it at a time, and nothing in it is overwritten, nor taken from a training that
still runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mindrecipe.errors import UserError
from mindrecipe.launch.claim import Claim, holder


class Busy(UserError):
    """Another process works there now."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """``folder`` is made, and is ours while entered. UserError where another process measures in it, or it can't be made."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(Claim(folder))
        except UserError as fault:
            raise _busy("measures", folder) from fault
        except OSError as fault:
            raise UserError(f"can't write in {folder}: {fault.strerror}", mend="-o <a folder of yours>") from fault
        yield


def set_aside(path: Path, why: str) -> None:
    """Rename ``path`` (a run directory, or a folder of some) to "<name>.<why>-<time>". :class:`Busy` where a training works in it."""
    for run in [path, *path.glob("*/")]:
        if holder(run) is not None:
            raise _busy("trains", run)
    aside = path.with_name(f"{path.name}.{why}-{time.time_ns()}")
    path.rename(aside)
    if (log := path.with_name(f"{path.name}.log")).is_file():  # what its training said
        log.rename(aside.with_name(f"{aside.name}.log"))


def _busy(what: str, folder: Path) -> Busy:
    pid = holder(folder) or "?"
    return Busy(f"process {pid} {what} in {folder} now", where=str(folder), mend="wait for its end, or another folder: -o <a new one>")
