"""A run directory belongs to one launch at a time: a lock that the kernel takes back whatever ends its holder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from mindrecipe.errors import UserError

NAME = ".launcher"
_TRIES, _PAUSE = 5, 0.05


class Claim:
    """Holds ``run_dir`` while entered. UserError where another launch has it."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._file = -1

    def __enter__(self) -> Claim:
        self._file = os.open(self._run_dir / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for _ in range(_TRIES):  # one that only looks whether it is held has it for a moment
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE)
            else:
                break
        else:
            os.close(self._file)
            raise taken(self._run_dir)
        os.ftruncate(self._file, 0)
        os.write(self._file, str(os.getpid()).encode())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._file)


def holder(run_dir: Path) -> str | None:
    """The process id of the launch that works in ``run_dir`` now ("?" on a disk that does not say); None if none does."""
    try:
        file = os.open(run_dir / NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: another that only looks is no holder
    except BlockingIOError:
        return os.read(file, 32).decode() or "?"
    finally:
        os.close(file)
    return None


def taken(run_dir: Path) -> UserError:
    """The fault of using a run directory that another launch works in."""
    return UserError(
        f"process {holder(run_dir) or '?'} trains in {run_dir} now",
        where=str(run_dir),
        mend="wait for its end, or stop it (Ctrl-C, or kill its process): its checkpoints can be resumed then",
    )
