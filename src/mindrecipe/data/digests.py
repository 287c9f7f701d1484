"""Content hashes of source files, remembered so that a large file is read once and not at each launch.

A hash is trusted as long as the file keeps its size and modification time. A file that changed within the last seconds is not
remembered: it could change again within the same tick of the clock.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mindrecipe.data.shared import put_text, shared_folder
from mindrecipe.data.sources import SourceFile

CHUNK = 1 << 20
SETTLED_NS = 3_000_000_000


def sha256_of(path: str, on_bytes: Callable[[int], None] | None = None) -> str:
    """The file's SHA-256 in hex, read in chunks; ``on_bytes`` is told how many bytes were read so far."""
    digest, read = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            read += len(chunk)
            if on_bytes is not None:
                on_bytes(read)
    return digest.hexdigest()


def _memo_path(files: Sequence[SourceFile], cache_dir: str) -> Path:
    # one memo a set of files: no growth without end, and two launches never write over each other's entries
    name = hashlib.sha256("\n".join(file.path for file in files).encode(errors="surrogateescape")).hexdigest()[:24]
    return Path(cache_dir, "digests", f"{name}.json")


def _read_memo(memo: Path) -> dict[str, list[int | str]]:
    try:
        known = json.loads(memo.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, not ours to read, or torn by a crash: hash again
        return {}
    return known if isinstance(known, dict) else {}


def _write_memo(cache_dir: str, memo: Path, known: dict[str, list[int | str]]) -> None:
    try:
        put_text(cache_dir, shared_folder(cache_dir, memo.parent.name) / memo.name, json.dumps(known))
    except OSError:
        # a read-only or full cache can still be read: the memo only saves time, and building checks that it can write
        return


def digests_of(files: Sequence[SourceFile], cache_dir: str, on_bytes: Callable[[int, int], None] | None = None) -> dict[str, str]:
    """SHA-256 of each file by its path, from the memo in ``cache_dir`` where it still holds.

    ``on_bytes(read, total)`` follows the reading of the files that are not in the memo (``total`` counts all files).
    """
    memo = _memo_path(files, cache_dir)
    known, now = _read_memo(memo), time.time_ns()
    fresh: dict[str, list[int | str]] = {}
    digests: dict[str, str] = {}
    passed, total = 0, sum(file.size for file in files)
    for file in files:
        entry = known.get(file.path)
        if entry is not None and entry[:2] == [file.size, file.mtime_ns]:
            digests[file.path] = str(entry[2])
        else:
            start = passed
            digests[file.path] = sha256_of(file.path, on_bytes and (lambda read, start=start: on_bytes(start + read, total)))
        passed += file.size
        if now - file.mtime_ns > SETTLED_NS:
            fresh[file.path] = [file.size, file.mtime_ns, digests[file.path]]
    if fresh != known:
        _write_memo(cache_dir, memo, fresh)
    return digests
