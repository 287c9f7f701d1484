"""Following files that other processes write: metrics, events, logs. Cheap enough to do many times a second."""

from __future__ import annotations

import os
from pathlib import Path


class LineTail:
    """New complete lines of a file since the last look; the file may not exist yet.

    A line that is still being written is held back until its newline arrives. A file that shrank (it was written anew)
    is read from its start. With ``from_end`` what is in the file now is passed over.
    """

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self._offset = _size(path) if from_end else 0
        self._partial = b""

    def read(self) -> list[str]:
        """The lines that were completed since the last call, without their newlines."""
        size = _size(self.path)
        if size < self._offset:
            self._offset, self._partial = 0, b""
        if size == self._offset:
            return []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            chunk = file.read()
        self._offset += len(chunk)
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        return [line.decode("utf-8", errors="replace") for line in lines]


def trim_torn_line(path: Path) -> int:
    """Cut an unfinished last line off, so that what a resumed run appends starts on its own line. Returns the bytes that were cut."""
    size = _size(path)
    if size == 0:
        return 0
    with path.open("rb+") as file:
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)
    return size - end


def last_lines(path: Path, count: int, *, window: int = 64 * 1024) -> list[str]:
    """Up to ``count`` last non-empty lines of a file, looking at its last ``window`` bytes only; [] if it does not exist."""
    size = _size(path)
    if size == 0:
        return []
    with path.open("rb") as file:
        file.seek(max(0, size - window))
        text = file.read().decode("utf-8", errors="replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
