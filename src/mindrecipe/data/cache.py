"""Built data sets by content: ``<cache_dir>/<key>/`` holds the MindRecords, tokenizer.json and, written last, facts.json.

Safe with any number of builders at once and with builders that are killed: an entry is made in a folder beside its place under the key's
lock, flushed to disk, and renamed into place in one step. The lock is the kernel's (it goes with its process); what a killed builder
left is removed by the next one that gets its lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mindrecipe.data.bpe import bpe_key
from mindrecipe.data.digests import sha256_of
from mindrecipe.data.shared import shared_folder
from mindrecipe.data.spec import DataFacts, DataSpec
from mindrecipe.data.split import Corpus
from mindrecipe.data.vocabulary import read_tokenizer_json
from mindrecipe.errors import UserError

FORMAT_VERSION = 1
FACTS = "facts.json"
LOCK_POLL_SECONDS = 0.5
_WORK_MARK = ".building-"


def key_of(spec: DataSpec, corpus: Corpus) -> str:
    """Content hash of all that decides the built rows: source bytes and their split, tokenizer, sequence length, layout, ids, format."""
    if spec.tokenizer == "bpe":
        tokenizer = bpe_key(spec, corpus)
    elif spec.tokenizer == "bytes":
        tokenizer = spec.tokenizer
    else:
        read_tokenizer_json(spec.tokenizer)  # says what is wrong with the file before it is hashed
        tokenizer = sha256_of(spec.tokenizer)
    content = [
        FORMAT_VERSION,
        [[(corpus.digests[file.path], file.suffix) for file in side] for side in (corpus.train, corpus.heldout)],
        [corpus.text_fraction, spec.text_field, tokenizer],
        [spec.vocab_size, spec.seq_length, spec.layout, spec.eos_token_id, spec.pad_token_id],
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def ensure_writable(cache_dir: str) -> None:
    """Make ``cache_dir`` and try it. Raises UserError where nothing can be written there."""
    try:
        os.makedirs(cache_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_dir):
            pass
    except OSError as error:
        raise UserError(
            f"the data cache {cache_dir} cannot be written: {error.strerror or error}",
            where=f"dataset.cache_dir={cache_dir}",
            mend="dataset.cache_dir=<a folder with space> or MINDRECIPE_CACHE=<it>",
        ) from None


def _as_text(facts: DataFacts, sizes: dict[str, int], spec: DataSpec) -> str:
    content: dict[str, Any] = {"format": FORMAT_VERSION, "facts": asdict(facts), "sizes": sizes, "spec": asdict(spec)}
    return json.dumps(content, indent=1)


def read_entry(cache_dir: str, key: str) -> DataFacts | None:
    """The facts of a complete entry, with absolute paths; None where there is none or files of it are missing or cut short."""
    folder = Path(cache_dir, key)
    try:
        content = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise UserError(f"the data set {folder} cannot be read: permission denied", where=f"dataset.cache_dir={cache_dir}") from None
    if any(not (folder / name).is_file() or (folder / name).stat().st_size != size for name, size in content["sizes"].items()):
        return None
    values = content["facts"]
    for name in ("train_files", "heldout_files"):
        values[name] = tuple(str(folder / file) for file in values[name])
    values["columns"] = tuple(values["columns"])
    values["tokenizer"] = values["tokenizer"] and str(folder / values["tokenizer"])
    return DataFacts(**values)


@contextlib.contextmanager
def locked(cache_dir: str, key: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of ``key``; ``on_wait`` is called again and again while another process holds it."""
    lock = _lock(cache_dir, key)
    while True:
        try:
            lock.acquire(timeout=LOCK_POLL_SECONDS)
            break
        except Timeout:
            on_wait()
    try:
        yield
    finally:
        lock.release()


def _lock(cache_dir: str, key: str) -> FileLock:
    return FileLock(shared_folder(cache_dir, "locks") / f"{key}.lock", mode=0o666)


def remove_leftovers(cache_dir: str, own_key: str) -> None:
    """Remove the working folders of builders that are gone; the caller holds ``own_key``'s lock, other keys are tried."""
    for folder in Path(cache_dir).glob(f"*{_WORK_MARK}*"):
        if _key_of(folder) == own_key:
            shutil.rmtree(folder, ignore_errors=True)  # best effort: a folder that stays is harmless and tried again
        else:
            _remove_if_left(cache_dir, folder)


def _remove_if_left(cache_dir: str, folder: Path) -> None:
    """A builder that lives, here or on another host, holds its key's lock."""
    lock = _lock(cache_dir, _key_of(folder))
    with contextlib.suppress(Timeout):
        lock.acquire(timeout=0)
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.release()


def _key_of(folder: Path) -> str:
    return folder.name.partition(_WORK_MARK)[0]


@contextlib.contextmanager
def working_folder(cache_dir: str, key: str) -> Iterator[Path]:
    """A fresh folder on the cache's own file system, gone afterwards unless it was published."""
    folder = Path(tempfile.mkdtemp(dir=cache_dir, prefix=f"{key}{_WORK_MARK}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # not there any more once published


def remove_work_of(cache_dir: str, builder: int) -> None:
    """Remove the working folder that the process ``builder`` has left: it was killed, or stopped before it could."""
    for folder in Path(cache_dir).glob(f"*{_WORK_MARK}{builder}-*"):
        _remove_if_left(cache_dir, folder)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(cache_dir: str, key: str, folder: Path, facts: DataFacts, spec: DataSpec) -> None:
    """Write facts.json into ``folder`` and move it to its place. ``facts`` name files relative to it. Another's finished entry stays."""
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    with open(folder / FACTS, "w", encoding="utf-8") as file:
        file.write(_as_text(replace(facts, fingerprint=key), sizes, spec))
        file.flush()
        os.fsync(file.fileno())
    folder.chmod(0o755)
    _flush(folder)
    place = Path(cache_dir, key)
    if place.exists() and read_entry(cache_dir, key) is None:
        shutil.rmtree(place)  # damaged from outside: files of it were removed
    try:
        folder.rename(place)
    except OSError:
        if read_entry(cache_dir, key) is None:
            raise
    _flush(Path(cache_dir))
