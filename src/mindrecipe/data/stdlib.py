"""The built-in corpus: the source files of the standard library of the running interpreter.

Left out: everything installed beside it (site-packages, dist-packages), the library's own tests, programs with a user interface
(idlelib, turtledemo), bundled copies (ensurepip, lib2to3), tables that are no prose (encodings, the build's _sysconfigdata): near
copies of each other on both sides of the split would flatter the held-out loss.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator

from mindrecipe.errors import UserError

LEFT_OUT = frozenset(
    {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "ensurepip", "lib2to3", "encodings"}
)
FEWEST_FILES = 100


def stdlib_root() -> str:
    """The standard library's folder; inside a venv it is that of the interpreter the venv was made from."""
    return sysconfig.get_paths()["stdlib"]


def _walk(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in LEFT_OUT:
                yield from _walk(entry.path)
        elif entry.name.endswith(".py") and entry.is_file() and not entry.name.startswith("_sysconfigdata"):
            yield entry.path


def stdlib_files(root: str | None = None) -> list[str]:
    """Paths of the non-empty source files, ordered by their path relative to ``root``.

    Raises UserError where Python is installed without its sources (zipped or compiled only).
    """
    root = root or stdlib_root()
    found = [path for path in _walk(root) if os.path.getsize(path) > 0] if os.path.isdir(root) else []
    if len(found) < FEWEST_FILES:
        raise UserError(
            f"this Python has only {len(found)} source files of its standard library",
            where=root,
            mend="dataset=text 'dataset.files=[\"corpus/**/*.txt\"]'",
        )
    return sorted(found, key=lambda path: os.path.relpath(path, root).split(os.sep))
