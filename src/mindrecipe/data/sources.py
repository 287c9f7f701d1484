"""From what the user wrote (paths and globs) to files that exist, can be read and hold something."""

from __future__ import annotations

import difflib
import glob
import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mindrecipe.errors import UserError

TEXT_SUFFIXES = (".txt", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was found: ``name`` is its path below the folder all files share (posix), ``size`` bytes, ``mtime_ns`` its stamp."""

    path: str
    name: str
    size: int
    mtime_ns: int

    @property
    def suffix(self) -> str:
        """The ending that decides how the file is read, in small letters."""
        return os.path.splitext(self.path)[1].lower()


def _mend_missing(path: str) -> str:
    near = _nearest(path)
    if near:
        return f"nearest that exists: {near}"
    folder = os.path.dirname(path)
    holds = sorted(os.listdir(folder))[:5] if os.path.isdir(folder) else []
    return f"{folder} holds {', '.join(holds)}" if holds else f"{folder} is empty"


def _nearest(path: str) -> str | None:
    """What exists and is called most like ``path``: a neighbour of that name, else the nearest folder that exists."""
    folder, name = os.path.split(path)
    if os.path.isdir(folder):
        close = difflib.get_close_matches(name, os.listdir(folder), n=1, cutoff=0.5)
        return os.path.join(folder, close[0]) if close else None
    while folder and not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder or None


def expand(patterns: Iterable[str], knob: str) -> list[str]:
    """The files that ``patterns`` (absolute paths or globs, ``**`` for any depth) name: each once, in a fixed order.

    Raises UserError for a path that does not exist, a folder, and a glob that matches nothing.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        is_glob = glob.has_magic(pattern) and not os.path.lexists(pattern)
        matches = sorted(path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path)) if is_glob else [pattern]
        if not matches:
            raise UserError(f"no file matches {pattern}", where=f"{knob}={pattern}", mend=_mend_missing(pattern))
        for path in matches:
            if not os.path.exists(path):
                raise UserError(f"there is no file {path}", where=f"{knob}={pattern}", mend=_mend_missing(path))
            if os.path.isdir(path):
                inside = os.path.join(path, "**", "*.txt")
                raise UserError(f"{path} is a folder", where=f"{knob}={pattern}", mend=f"'{knob}=[\"{inside}\"]'")
            found.setdefault(os.path.realpath(path), path)
    return sorted(found.values())


def stat_files(paths: Sequence[str], root: str | None = None) -> list[SourceFile]:
    """Look at each file once. Raises UserError for one that cannot be read, is not a regular file, or is empty (all empty ones named)."""
    if not paths:
        return []
    root = root or os.path.commonpath([os.path.dirname(path) for path in paths])
    files: list[SourceFile] = []
    for path in paths:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path} is not a regular file", where=path)
        if not os.access(path, os.R_OK):
            raise UserError(f"{path} cannot be read: permission denied", where=path, mend=f"chmod +r {path}")
        files.append(SourceFile(path, os.path.relpath(path, root).replace(os.sep, "/"), status.st_size, status.st_mtime_ns))
    empty = [file.path for file in files if file.size == 0]
    if empty:
        more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
        raise UserError(
            f"{'files are' if len(empty) > 1 else 'file is'} empty: {', '.join(empty[:3])}{more}",
            where=empty[0],
            mend=f"fill or remove {'them' if len(empty) > 1 else 'it'}, or name others in dataset.files",
        )
    return files


def find_text_files(patterns: Sequence[str], knob: str = "dataset.files") -> list[str]:
    """The .txt, .jsonl and .parquet files of ``patterns``. Raises UserError for none and for other endings."""
    if not patterns:
        raise UserError("dataset=text needs files", where=knob, mend=f"'{knob}=[\"corpus/**/*.txt\"]'")
    paths = expand(patterns, knob)
    for path in paths:
        suffix = os.path.splitext(path)[1].lower()
        if suffix not in TEXT_SUFFIXES:
            hint = {".mindrecord": "dataset=mindrecord", ".json": "one JSON object a line, named .jsonl"}.get(
                suffix, f"if it is plain text: ln -s {shlex.quote(os.path.basename(path))} {shlex.quote(f'{path}.txt')}, and name that"
            )
            what = f"{path} ends in {suffix or 'nothing'}, known are {', '.join(TEXT_SUFFIXES)}"
            raise UserError(what, where=f"{knob}={path}", mend=hint)
    return paths
