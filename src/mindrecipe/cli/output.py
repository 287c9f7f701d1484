"""Output of work that matters more than its reader: a training, or a verb whose exit code is its answer.

`train ... | tee log` whose tee dies must train on, and end with the training's own exit code: all it says is in the run directory.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys

_GONE = (errno.EPIPE, errno.EIO)
"""The reader of the pipe has left; the terminal was closed."""


class _Outliving(io.FileIO):
    """A file descriptor of ours whose bytes are dropped once nobody takes them; it is said on ``other``, in case that one is read."""

    def __init__(self, number: int, other: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._other = other

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """All of ``data`` is taken, also where it can't be written."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # for whoever else writes there, too
            with contextlib.suppress(OSError):  # `2>&1 | tee`: the other one is as dead, and there is nobody to tell
                os.write(self._other, f"nobody reads the output any more ({error.strerror}): it is dropped, the work goes on\n".encode())
            return len(data)


def outlive_readers() -> None:
    """From now on a reader of standard output or standard error that goes away ends nothing."""
    for name, number, other in (("stdout", 1, 2), ("stderr", 2, 1)):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper) or not _is(stream, number):
            continue  # a test's own
        stream.flush()
        raw = _Outliving(number, other)
        unbuffered = isinstance(stream.buffer, io.RawIOBase)  # PYTHONUNBUFFERED
        text = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),  # type: ignore[type-var]
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, text)


def readers_are_outlived() -> bool:
    """Whether a broken pipe can't be one of our readers' any more."""
    return isinstance(sys.stdout, io.TextIOWrapper) and isinstance(getattr(sys.stdout.buffer, "raw", sys.stdout.buffer), _Outliving)


def _is(stream: io.TextIOWrapper, number: int) -> bool:
    try:
        return stream.fileno() == number
    except io.UnsupportedOperation:
        return False
