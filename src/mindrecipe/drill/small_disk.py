"""A disk of its own for one run, that can be made full in a moment and empty again: a tmpfs whose size is changed under it.

Nothing else gives a program a disk that really says "no space left": a limit of a file's size is another error, and filling the real one
would break what else works there. It takes the right to mount (root).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

_TRIES = 20


class NoDisk(Exception):
    """This machine gives us no disk of our own; the message says why."""


class SmallDisk:
    """Mounted at ``folder`` while entered; what is in it at the end stays, copied to the same place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> SmallDisk:
        """NoDisk where it can't be mounted."""
        self._folder.mkdir(parents=True)
        try:
            _mount("-t", "tmpfs", "mindrecipe-drill", str(self._folder))
        except NoDisk:
            self._folder.rmdir()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        kept = self._folder.with_name(f"{self._folder.name}.kept")
        shutil.copytree(self._folder, kept, symlinks=True)
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True, capture_output=True)  # a rank may be dying in it
        self._folder.rmdir()
        os.rename(kept, self._folder)

    def fill(self, *, leaving: int = 0) -> None:
        """From now on no byte can be added, or only so many."""
        for _ in range(_TRIES):  # what is written meanwhile makes a size too small
            state = os.statvfs(self._folder)
            try:
                _mount("-o", f"remount,size={(state.f_blocks - state.f_bfree) * state.f_frsize + leaving}", str(self._folder))
            except NoDisk:
                continue
            return
        raise NoDisk(f"{self._folder} did not stand still for a moment")

    def make_room(self) -> None:
        """As an administrator does."""
        _mount("-o", "remount,size=50%", str(self._folder))


def _mount(*words: str) -> None:
    if shutil.which("mount") is None:
        raise NoDisk("there is no mount on PATH")
    done = subprocess.run(["mount", *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoDisk(done.stderr.strip() or f"mount: exit code {done.returncode}")
