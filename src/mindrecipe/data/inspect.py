"""Checks ready MindRecord files against the model before a device is touched, in milliseconds and without mindspore."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from mindrecipe.data.recordfile import RecordFile, open_record, read_rows
from mindrecipe.data.sources import expand, stat_files
from mindrecipe.data.spec import COLUMNS, DataFacts
from mindrecipe.errors import UserError

SEQUENCES = ("input_ids", "labels", "loss_mask", "position_ids")
ROWS_LOOKED_AT = 4
EDGE_BYTES = 1 << 20
# mindformers takes a file for MindRecord by its name
NAME = re.compile(r"mindrecord\d*$")


def find_record_files(patterns: Sequence[str], knob: str = "dataset.files") -> list[str]:
    """The MindRecord files of ``patterns`` (their .db indices are passed over). Raises UserError for none and for other names."""
    if not patterns:
        raise UserError("dataset=mindrecord needs files", where=knob, mend=f"'{knob}=[\"data/*.mindrecord\"]'")
    paths = [path for path in expand(patterns, knob) if not path.endswith(".db")]
    if not paths:
        raise UserError(f"only .db indices match {', '.join(patterns)}", where=knob, mend="name the .mindrecord files")
    for path in paths:
        if not NAME.search(path):
            raise UserError(f"{path} is not called *.mindrecord or *.mindrecord<number>", where=f"{knob}={path}")
    stat_files(paths)
    return paths


def _check_width(values: Sequence[float], seq_length: int, layout: str, where: str) -> None:
    extra = 1 if layout == "shifted" else 0
    if len(values) != seq_length + extra:
        fits = len(values) - extra
        raise UserError(
            f"samples have {len(values)} ids, model.seq_length={seq_length} needs {seq_length + extra}",
            where=where,
            mend=f"model.seq_length={fits}" if fits > 0 else None,
        )


def _check_ids(values: Sequence[float], vocab_size: int, where: str) -> None:
    wrong = [int(value) for value in values if not 0 <= value < vocab_size]
    if wrong:
        mend = f"model.vocab_size={max(wrong) + 1} or more" if max(wrong) > 0 else "write ids from 0 on"
        raise UserError(f"id {wrong[0]} is outside the model's 0..{vocab_size - 1}", where=where, mend=mend)


def _check_file(path: str, columns: tuple[str, ...], seq_length: int, layout: str, vocab_size: int | None) -> RecordFile:
    record = open_record(path)
    missing = [name for name in columns if name not in record.blobs]
    if missing:
        known = ", ".join(f"{name} ({kind})" for name, kind in record.columns.items())
        offered = ",".join(record.blobs[: len(columns)]) if len(record.blobs) >= len(columns) else ""
        mend = f"'dataset.columns=[{offered}]'" if offered else f"write it with the columns {', '.join(columns)}"
        raise UserError(f"{path} has no array column {', '.join(missing)}; its columns: {known}", where=path, mend=mend)
    roles = dict(zip(columns, SEQUENCES, strict=False))  # by their place, whatever they are called
    for name in columns:
        if roles.get(name) in ("input_ids", "labels") and not record.columns[name].startswith("int"):
            raise UserError(f"the column {name} of {path} is {record.columns[name]}, not integer", where=path)
    if record.rows == 0:
        raise UserError(f"{path} has no rows", where=path)
    looked_at = sorted({*range(min(ROWS_LOOKED_AT, record.rows)), record.rows - 1})
    for number, row in zip(looked_at, read_rows(record, columns, looked_at), strict=True):
        for name, values in row.items():
            where = f"{path}, row {number}, column {name}"
            if name in SEQUENCES or name in roles:
                _check_width(values, seq_length, layout, where)
            if roles.get(name) == "input_ids" and vocab_size is not None:
                _check_ids(values, vocab_size, where)
    return record


def _fingerprint(records: Sequence[RecordFile], train: int) -> str:
    """Hash of names, sizes, headers, and the first and last MiB of each file: ready sets are too large to be read at each launch."""
    digest = hashlib.sha256(str(train).encode())
    for record in records:
        size = os.path.getsize(record.path)
        digest.update(f"{os.path.basename(record.path)} {size} {record.rows}".encode() + record.header)
        with open(record.path, "rb") as file:
            file.seek(record.header_bytes)
            digest.update(file.read(EDGE_BYTES))
            file.seek(max(size - EDGE_BYTES, 0))
            digest.update(file.read(EDGE_BYTES))
    return digest.hexdigest()[:32]


def inspect_mindrecord(
    files: Sequence[str],
    columns: Sequence[str],
    seq_length: int,
    layout: str,
    *,
    heldout_files: Sequence[str] = (),
    vocab_size: int | None = None,
) -> DataFacts:
    """The facts of ready files (paths or globs): columns, row counts, fingerprint.

    The first rows and the last of each file must have ``seq_length`` (+ 1 in layout "shifted") values in each of ``columns`` (default:
    those of the layout) and ids below ``vocab_size``. Token counts are rows x seq_length: masks are not read.
    Raises UserError for every fault of the files.
    """
    wanted = tuple(columns) or COLUMNS[layout]
    train = find_record_files(files)
    heldout = find_record_files(heldout_files, "dataset.heldout_files") if heldout_files else []
    both = {os.path.realpath(path) for path in heldout}
    train = [path for path in train if os.path.realpath(path) not in both]
    if not train:
        mend = "name files to train on in dataset.files"
        raise UserError("every file of dataset.files is held out", where="dataset.heldout_files", mend=mend)
    records = [_check_file(path, wanted, seq_length, layout, vocab_size) for path in [*train, *heldout]]
    train_rows = sum(record.rows for record in records[: len(train)])
    heldout_rows = sum(record.rows for record in records[len(train) :])
    return DataFacts(
        train_files=tuple(train),
        heldout_files=tuple(heldout),
        columns=wanted,
        train_rows=train_rows,
        heldout_rows=heldout_rows,
        train_tokens=train_rows * seq_length,
        heldout_tokens=heldout_rows * seq_length,
        unigram_entropy=None,
        fingerprint=_fingerprint(records, len(train)),
    )
