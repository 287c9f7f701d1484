"""The data room as the launcher sees it: find, check, look up, build. Nothing here imports mindspore, tokenizers or numpy."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from mindrecipe.data.cache import ensure_writable, key_of, read_entry, remove_work_of
from mindrecipe.data.inspect import inspect_mindrecord
from mindrecipe.data.progress import Progress
from mindrecipe.data.spec import DataFacts, DataSpec
from mindrecipe.data.split import Corpus, find_corpus
from mindrecipe.data.texts import text_bytes
from mindrecipe.data.vocabulary import check_vocabulary
from mindrecipe.errors import EXIT_USAGE, UserError

OnProgress = Callable[[Progress], None]

__all__ = [
    "OnProgress",
    "Progress",
    "build",
    "cache_key",
    "check",
    "fingerprint",
    "inspect_mindrecord",
    "lookup",
    "prepare",
    "resolve_files",
]

TRACEBACK_LINES = 30
STOP_SECONDS = 5.0
FIXED_BYTES = 8 << 20
INDEX_BYTES = 50


def resolve_files(spec: DataSpec) -> Corpus:
    """The source files of a "stdlib" or "text" data set and their split, after a look at the first texts of each.

    Raises UserError for files that are missing, empty, unreadable or of the wrong kind, and for fields or columns they do not have.
    """
    return find_corpus(spec, look_inside=True)


def cache_key(spec: DataSpec, on_progress: OnProgress | None = None) -> str:
    """The content hash under which the built data set is kept (32 hex digits). Large files seen for the first time are read for it."""
    started = time.monotonic()

    def report(read: int, total: int) -> None:
        if on_progress is not None:
            on_progress(Progress(phase="hash", done=read, total=total, tokens=0, seconds=time.monotonic() - started))

    return key_of(spec, find_corpus(spec, look_inside=False, on_bytes=report))


def lookup(spec: DataSpec, on_progress: OnProgress | None = None) -> DataFacts | None:
    """The facts of the data set if it has been built from just these bytes, else None; for ready MindRecords their facts."""
    if spec.source == "mindrecord":
        return _inspect(spec)
    return read_entry(spec.cache_dir, cache_key(spec, on_progress))


def fingerprint(spec: DataSpec) -> str:
    """That of the facts the data set has or would have, without building it. UserError for files that are missing or no text."""
    return _inspect(spec).fingerprint if spec.source == "mindrecord" else cache_key(spec)


def check(spec: DataSpec) -> None:
    """Raise UserError for every fault that can be found without building: files, fields, ids, cache folder, space on disk."""
    if spec.source == "mindrecord":
        _inspect(spec)
        return
    corpus = resolve_files(spec)
    check_vocabulary(spec)
    ensure_writable(spec.cache_dir)
    needed, free = estimated_bytes(spec, corpus), shutil.disk_usage(spec.cache_dir).free
    if needed > free:
        raise UserError(
            f"the data set needs about {needed / 2**30:.1f} GiB in {spec.cache_dir}, {free / 2**30:.1f} GiB are free",
            where=f"dataset.cache_dir={spec.cache_dir}",
            mend="dataset.cache_dir=<a folder with space>",
        )


def prepare(spec: DataSpec, on_progress: OnProgress) -> DataFacts:
    """The facts of the data set: looked up, or built now."""
    return lookup(spec, on_progress) or build(spec, on_progress)


def build(spec: DataSpec, on_progress: OnProgress) -> DataFacts:
    """Build the data set in a process of its own and return its facts; two at once build once.

    Raises UserError for faults of the user's and RuntimeError, with the end of the builder's traceback, for ours. The builder ends with
    this call, also on KeyboardInterrupt.
    """
    check(spec)
    with tempfile.TemporaryDirectory(prefix="mindrecipe-data-") as scratch, open(Path(scratch, "stderr"), "w+b") as stderr:
        spec_file = Path(scratch, "spec.json")
        spec_file.write_text(json.dumps(asdict(spec)), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "mindrecipe.data.build", str(spec_file)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=_environment(),
            cwd=spec.cache_dir,  # the user's folder may hold modules that would shadow ours
            start_new_session=True,
        )
        try:
            last = _follow(process, on_progress)
        finally:
            _stop(process, spec.cache_dir)
        stderr.seek(0)
        key = _result(process.returncode, last, stderr.read().decode(errors="replace"))
    facts = read_entry(spec.cache_dir, key)
    if facts is None:
        raise RuntimeError(f"the builder finished, but {spec.cache_dir}/{key} is not there")
    return facts


def estimated_bytes(spec: DataSpec, corpus: Corpus) -> int:
    """About how much disk the built data set takes: ids (half a token a byte for subwords) of 1 to 4 bytes, and the index."""
    text = sum(text_bytes(file, spec.text_field) for file in corpus.files)
    tokens = text if spec.tokenizer == "bytes" else text // 2
    per_id = 2.25 if spec.vocab_size <= 1 << 15 else 4.25
    per_token = per_id if spec.layout == "shifted" else 2 * per_id + 1.25
    return int(tokens * per_token) + tokens // spec.seq_length * INDEX_BYTES + FIXED_BYTES


def _inspect(spec: DataSpec) -> DataFacts:
    return inspect_mindrecord(
        spec.files, spec.columns, spec.seq_length, spec.layout, heldout_files=spec.heldout_files, vocab_size=spec.vocab_size
    )


def _environment() -> dict[str, str]:
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "true"}
    env.setdefault("GLOG_v", "3")  # MindSpore: errors only
    home = Path(__file__).resolve().parents[2]
    if home.name not in ("site-packages", "dist-packages"):  # a checkout: the builder has to find it too
        env["PYTHONPATH"] = os.pathsep.join([str(home), *filter(None, [env.get("PYTHONPATH")])])
    return env


def _follow(process: subprocess.Popen[str], on_progress: OnProgress) -> dict[str, object]:
    """Hand on the progress; returns the last message that is none."""
    last: dict[str, object] = {}
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if "progress" in message:
            on_progress(Progress(**message["progress"]))
        else:
            last = message
    process.wait()
    return last


def _stop(process: subprocess.Popen[str], cache_dir: str) -> None:
    """End the builder's process group if it still runs; what it was building goes too, even where it does not come to that itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:  # also one that the signal met just as it had made its folder
        remove_work_of(cache_dir, process.pid)
    if process.stdout is not None:
        process.stdout.close()


def _result(code: int, last: dict[str, object], stderr: str) -> str:
    error = last.get("error")
    if code == EXIT_USAGE and isinstance(error, dict):
        raise UserError(str(error["what"]), where=error["where"], mend=error["mend"])
    if code == 0 and "key" in last:
        return str(last["key"])
    how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"failed with exit code {code}"
    tail = "\n".join(stderr.splitlines()[-TRACEBACK_LINES:])
    raise RuntimeError(f"the data builder {how}\n{tail}")
