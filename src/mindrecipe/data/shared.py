"""A cache that several users share: what one of them makes in it, all who may write to the cache folder can use.

Whatever a user's umask is: folders get the cache folder's own mode, files can be read by those who may look into the cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mindrecipe.errors import UserError


def shared_folder(cache_dir: str | Path, *names: str) -> Path:
    """The folder ``names`` in each other below the cache, made where it is missing. PermissionError where this user can't write to it."""
    folder = Path(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    for name in names:
        folder = folder / name
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        folder.chmod(mode)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return folder


def put_text(cache_dir: str | Path, path: Path, text: str) -> None:
    """Write a file of a shared folder: whole or not at all, on the disk. One that another user has put there meanwhile stays."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(os.stat(cache_dir).st_mode) & 0o644 | 0o600)
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, PermissionError) and path.exists():
            return  # a sticky folder, where nobody replaces another's file: its name says what is in it
        raise


@contextlib.contextmanager
def usable(cache_dir: str | Path) -> Iterator[None]:
    """Make a UserError of what is not permitted in the cache: another user's umask, or an older release of ours, kept it to its owner."""
    try:
        yield
    except PermissionError as error:
        cache = os.path.abspath(cache_dir)
        place = os.path.abspath(os.fsdecode(error.filename)) if error.filename is not None else ""
        if place != cache and not place.startswith(cache + os.sep):
            raise
        part = os.path.normpath(os.path.join(cache, os.path.relpath(place, cache).split(os.sep)[0]))
        raise UserError(
            f"the data cache {cache_dir} is not this user's to use: {place}: {error.strerror}",
            where=f"dataset.cache_dir={cache_dir}",
            mend=f"chmod -R a+rwX {shlex.quote(part)} (by its owner), or dataset.cache_dir=<a folder of yours>, or MINDRECIPE_CACHE=<it>",
        ) from error
