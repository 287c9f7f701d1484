"""A disk that fills up under a run: recognised as such, with room kept for the last words."""

from __future__ import annotations

import errno
import shutil
import time
from pathlib import Path
from types import TracebackType

from mindrecipe.errors import EXIT_FAILED, UserError

BALLAST = 256 << 10
FULL_BELOW = 1 << 20
DISK_FULL = "DiskFull"
_LOOK_EVERY = 5.0


class Ballast:
    """A small file in the run directory whose bytes are given back when the summary has no room, or at the end."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / ".ballast"

    def __enter__(self) -> Ballast:
        self._path.write_bytes(b"\1" * BALLAST)  # not zeros: some file systems keep those for nothing
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.drop()

    def drop(self) -> None:
        """Give the room back."""
        self._path.unlink(missing_ok=True)


class DiskWatch:
    """Looks now and then whether the disk of ``run_dir`` has fewer than ``low`` bytes left; tells it once as long as it stays so."""

    def __init__(self, run_dir: Path, low: int, action: str, every: float = _LOOK_EVERY) -> None:
        self._run_dir = run_dir
        self._low = low if action != "off" else 0
        self._every = every
        self._next = 0.0
        self._told = False

    def look(self) -> str | None:
        """What to tell; None as long as there is room."""
        now = time.monotonic()
        if not self._low or now < self._next:
            return None
        self._next = now + self._every
        free = shutil.disk_usage(self._run_dir).free
        if free >= self._low:
            self._told = False
            return None
        known, self._told = self._told, True
        low = f"{free / 2**30:.2f} GiB are free on the disk of {self._run_dir}, fewer than watch.disk_gb={self._low / 2**30:g}"
        return None if known else low


class DiskFull(UserError):
    """The disk of a run that was under way is full: its end is told in words, as a failure (exit code 1)."""

    exit_code = EXIT_FAILED


def is_full(run_dir: Path) -> bool:
    """Whether what a rank wrote last can have failed for lack of room."""
    return shutil.disk_usage(run_dir).free < FULL_BELOW


def is_no_space(error: BaseException) -> bool:
    """Whether the error is the file system's, of having no room (or no quota) left."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def describe_full(run_dir: Path) -> str:
    """The fault in words."""
    return f"the disk of {run_dir} is full: {shutil.disk_usage(run_dir).free / 2**20:.1f} MiB are free"
