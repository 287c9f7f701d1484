"""The builder process: ``python -m mindrecipe.data.build SPEC.json``.

Prints JSON lines on stdout: {"progress": ...} while it works, at the end {"key": ...}, or {"error": {what, where, mend}} with exit
code 2 for a fault of the user's. Other faults end in a traceback on stderr and exit code 1. The result is the entry of that key in the
cache.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from mindrecipe.data.bpe import cached_bpe
from mindrecipe.data.cache import key_of, locked, publish, read_entry, remove_leftovers, working_folder
from mindrecipe.data.encode import encoded
from mindrecipe.data.entropy import UnigramCounts, unigram_entropy
from mindrecipe.data.mindrecord import RowWriter, load_mindspore
from mindrecipe.data.pack import Ids, Packer, padded_row
from mindrecipe.data.progress import ProgressWriter
from mindrecipe.data.shared import usable
from mindrecipe.data.spec import COLUMNS, DataFacts, DataSpec
from mindrecipe.data.split import Corpus, find_corpus
from mindrecipe.data.streams import private_stdout
from mindrecipe.data.texts import text_bytes
from mindrecipe.data.vocabulary import pad_id
from mindrecipe.errors import EXIT_USAGE, UserError

TOKENIZER_FILE = "tokenizer.json"
DISK_IS_FULL_BELOW = 64 << 20
# what MindSpore says when a disk is full, in place of an OSError
MINDSPORE_DISK_FULL = "No free disk"


@dataclass(slots=True)
class SplitBuild:
    """One side of the split on its way to disk: ids are packed to rows, counted and written."""

    spec: DataSpec
    folder: Path
    name: str
    packer: Packer = field(init=False)
    counts: UnigramCounts = field(init=False)
    writer: RowWriter = field(init=False)

    def __post_init__(self) -> None:
        self.packer = Packer(self.spec.seq_length)
        self.counts = UnigramCounts(self.spec.vocab_size)
        self.writer = RowWriter(self.folder, self.name, self.spec.layout, self.spec.seq_length)

    def push(self, ids: Ids) -> None:
        """Take the next ids of the stream."""
        rows = self.packer.push(ids)
        if len(rows):
            self.counts.add(rows[:, 1:])
            self.writer.write(rows)

    def close(self) -> None:
        """Write what is left: a padded, masked row in layout "labelled".

        Layout "shifted" has no mask: there, what fills no row is dropped (fewer than ``seq_length`` targets).
        """
        rest = self.packer.rest
        if self.spec.layout == "labelled" and len(rest) > 1:
            self.counts.add(rest[1:])
            self.writer.write(*padded_row(rest, self.spec.seq_length, pad_id(self.spec)))
        self.writer.close()

    def require_rows(self, knob: str, mend: str) -> None:
        """Raise UserError where the text does not fill a single row."""
        if not self.writer.rows:
            raise UserError(
                f"the {self.name} split has {len(self.packer.rest)} tokens, a row of model.seq_length={self.spec.seq_length} needs "
                f"{self.spec.seq_length + 1}",
                where=knob,
                mend=mend,
            )


def _tokenizer(spec: DataSpec, corpus: Corpus, folder: Path, report: ProgressWriter) -> str | None:
    """The text of the tokenizer.json, put beside the rows; None for plain bytes."""
    if spec.tokenizer == "bytes":
        return None
    if spec.tokenizer == "bpe":
        text = cached_bpe(spec, corpus, lambda read, total: report("tokenizer", read, total))
    else:
        text = Path(spec.tokenizer).read_text(encoding="utf-8")
    (folder / TOKENIZER_FILE).write_text(text, encoding="utf-8")
    return text


def _check_unchanged(corpus: Corpus) -> None:
    for file in corpus.files:
        status = os.stat(file.path)
        if (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns):
            raise UserError(f"{file.path} changed while it was read", where=file.path, mend="run again when it is complete")


def _build_rows(spec: DataSpec, corpus: Corpus, folder: Path, report: ProgressWriter) -> DataFacts:
    tokenizer = _tokenizer(spec, corpus, folder, report)
    train, heldout = SplitBuild(spec, folder, "train"), SplitBuild(spec, folder, "heldout")
    total = sum(text_bytes(file, spec.text_field) for file in corpus.files)
    done = tokens = 0
    for size, train_ids, heldout_ids in encoded(spec, corpus, tokenizer):
        load_mindspore()  # the first time 2 s, while the other process tokenizes
        train.push(train_ids)
        heldout.push(heldout_ids)
        done, tokens = done + size, tokens + len(train_ids) + len(heldout_ids)
        report("rows", min(done, total), total, tokens)
    if not done:
        mend = f"is dataset.text_field={spec.text_field} the right one?"
        raise UserError("there is no text in the files", where="dataset.files", mend=mend)
    report("index", done, done, tokens)
    train.close()
    heldout.close()
    train.require_rows("dataset.files", "more text, or a smaller model.seq_length")
    if corpus.heldout or corpus.text_fraction > 0:
        heldout.require_rows("dataset.heldout_fraction", "a larger dataset.heldout_fraction, more text, or a smaller model.seq_length")
    return DataFacts(
        train_files=tuple(path.name for path in train.writer.files),
        heldout_files=tuple(path.name for path in heldout.writer.files),
        columns=COLUMNS[spec.layout],
        train_rows=train.writer.rows,
        heldout_rows=heldout.writer.rows,
        train_tokens=train.counts.total,
        heldout_tokens=heldout.counts.total,
        unigram_entropy=unigram_entropy(train.counts, heldout.counts) if heldout.counts.total else None,
        fingerprint="",
        tokenizer=None if tokenizer is None else TOKENIZER_FILE,
    )


def _disk_full(cache_dir: str) -> UserError:
    free = shutil.disk_usage(cache_dir).free
    return UserError(
        f"no space is left for the data set in {cache_dir} ({free >> 20} MiB free)",
        where=f"dataset.cache_dir={cache_dir}",
        mend="dataset.cache_dir=<a folder with space>",
    )


def build_entry(spec: DataSpec, report: ProgressWriter) -> str:
    """Build the data set of ``spec`` unless the cache has it; returns its key. Raises UserError for faults of files, ids and disk."""
    corpus = find_corpus(spec, look_inside=False, on_bytes=lambda read, total: report("hash", read, total))
    key = key_of(spec, corpus)
    with usable(spec.cache_dir), locked(spec.cache_dir, key, lambda: report("wait", 0, 0)):
        if read_entry(spec.cache_dir, key) is not None:
            return key
        remove_leftovers(spec.cache_dir, key)
        try:
            with working_folder(spec.cache_dir, key) as folder:
                facts = _build_rows(spec, corpus, folder, report)
                _check_unchanged(corpus)
                publish(spec.cache_dir, key, folder, facts, spec)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _disk_full(spec.cache_dir) from error
            raise
        except RuntimeError as error:
            if MINDSPORE_DISK_FULL in str(error) or shutil.disk_usage(spec.cache_dir).free < DISK_IS_FULL_BELOW:
                raise _disk_full(spec.cache_dir) from error
            raise
    return key


def read_spec(path: str) -> DataSpec:
    """The DataSpec in a JSON file."""
    values = json.loads(Path(path).read_text(encoding="utf-8"))
    for name in ("files", "heldout_files", "columns"):
        values[name] = tuple(values[name])
    return DataSpec(**values)


def main(argv: list[str]) -> int:
    """Build the spec named by the only argument; returns the exit code."""
    report = ProgressWriter(private_stdout())
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # leave through the clean-up of the working folder
    try:
        key = build_entry(read_spec(argv[0]), report)
    except UserError as error:
        report.line({"error": {"what": error.what, "where": error.where, "mend": error.mend}})
        return EXIT_USAGE
    report.line({"key": key})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
