"""Reads a range of rows of a MindRecord file and looks at every id: one chunk of a data check, in a process of its own or in this one.

What it returns is small whatever the range: counts, the first few finds of each kind, and one 8-byte digest of a row (of every
``keep``-th digest, so that equal rows are kept or left out together).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mindrecipe.data.recordfile import RecordFile, broken, raw_rows

Ids = npt.NDArray[np.int64]
#: finds of one kind that are told with their place
SHOWN = 5
#: labels that losses leave out, beside the padding id
IGNORED = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What rows have to be: ``columns`` are ids, then (layout labelled) labels and mask, under whatever names; lengths in tokens."""

    columns: tuple[str, ...]
    seq_length: int
    shifted: bool
    vocab_size: int
    pad_token_id: int
    keep: int


@dataclass(slots=True)
class Scanned:
    """``finds``: kind -> (count, [(file, row, what)]); ``lengths``: tokens a row trains on -> rows; ``digests``: of (kept) rows."""

    rows: int = 0
    tokens: int = 0
    finds: dict[str, tuple[int, list[tuple[str, int, str]]]] = field(default_factory=dict)
    lengths: Counter[int] = field(default_factory=Counter)
    digests: list[tuple[str, npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = field(default_factory=list)

    def find(self, kind: str, path: str, row: int, what: str) -> None:
        """Count a find, and keep it where it is one of the first."""
        count, places = self.finds.get(kind, (0, []))
        self.finds[kind] = (count + 1, [*places, (path, row, what)] if len(places) < SHOWN else places)

    def add(self, other: Scanned) -> None:
        """Take another chunk's finds in."""
        self.rows, self.tokens = self.rows + other.rows, self.tokens + other.tokens
        self.lengths.update(other.lengths)
        self.digests += other.digests
        for kind, (count, places) in other.finds.items():
            had, kept = self.finds.get(kind, (0, []))
            self.finds[kind] = (had + count, [*kept, *places][:SHOWN])


def scan(record: RecordFile, start: int, stop: int, wanted: Wanted) -> Scanned:
    """Look at the rows ``start`` to ``stop`` of ``record``. UserError where the file's bytes are not what its header says."""
    found = Scanned()
    digests, numbers = [], []
    for number, blob in raw_rows(record, range(start, stop)):
        try:
            parts = {name: array_of(part, record.columns[name]) for name, part in blob if name in wanted.columns}
        except ValueError as error:
            raise broken(record.path, f"row {number}: {error}") from None
        columns = [parts[name] for name in wanted.columns]
        found.rows += 1
        targets = _look(found, record.path, number, columns, wanted)
        found.tokens += targets
        found.lengths[targets] += 1
        digest = int.from_bytes(hashlib.blake2b(columns[0].tobytes(), digest_size=8).digest(), "little")
        if digest % wanted.keep == 0:
            digests.append(digest)
            numbers.append(number)
    found.digests.append((record.path, np.array(digests, np.uint64), np.array(numbers, np.int64)))
    return found


def _look(found: Scanned, path: str, row: int, columns: list[npt.NDArray[np.generic]], wanted: Wanted) -> int:
    """Everything that can be wrong with one row; returns how many tokens it trains on."""
    length = wanted.seq_length + (1 if wanted.shifted else 0)
    for name, values in zip(wanted.columns, columns, strict=True):
        if len(values) != length:
            found.find("ragged", path, row, f"{name} has {len(values)} values, model.seq_length={wanted.seq_length} needs {length}")
            return 0
    ids = columns[0].astype(np.int64)
    outside = (ids < 0) | (ids >= wanted.vocab_size)
    if outside.any():
        at = int(np.argmax(outside))
        found.find("ids", path, row, f"id {ids[at]} at position {at} is outside the model's 0..{wanted.vocab_size - 1}")
    if not ids.any():
        found.find("zeros", path, row, "every id is 0")
    elif (ids == wanted.pad_token_id).all():
        found.find("padding", path, row, f"every id is the padding id {wanted.pad_token_id}")
    targets = ids[1:] if wanted.shifted else ids
    trains = targets != wanted.pad_token_id
    if not wanted.shifted and len(columns) > 1:
        trains = _labels(found, path, row, columns, wanted)
    count = int(np.count_nonzero(trains))
    if not count and ids.any() and not (ids == wanted.pad_token_id).all():
        found.find("no_target", path, row, "nothing of it is trained on: every target is masked")
    return count


def _labels(found: Scanned, path: str, row: int, columns: list[npt.NDArray[np.generic]], wanted: Wanted) -> npt.NDArray[np.bool_]:
    ids, labels = columns[0].astype(np.int64), columns[1].astype(np.int64)
    counts = np.ones(len(ids), bool)
    if len(columns) > 2:
        mask = columns[2].astype(np.float64)
        counts = mask != 0
        if ((mask != 0) & (mask != 1)).any():
            at = int(np.argmax((mask != 0) & (mask != 1)))
            found.find("mask", path, row, f"{wanted.columns[2]} is {mask[at]:g} at position {at}, not 0 or 1")
    outside = counts & ((labels < 0) | (labels >= wanted.vocab_size)) & (labels != IGNORED)
    if outside.any():
        at = int(np.argmax(outside))
        what = f"label {labels[at]} at position {at} is outside the model's 0..{wanted.vocab_size - 1} and not masked"
        found.find("labels", path, row, what)
    trains: npt.NDArray[np.bool_] = counts & (labels != IGNORED)
    both = trains[:-1]
    if both.any() and not (labels[:-1] == ids[1:])[both].any() and len(ids) > 2:
        same = bool((labels == ids)[trains].all())
        found.find("shift", path, row, "its labels are its ids, not the next ids" if same else "no label is the id that follows")
    return trains


def array_of(blob: bytes, kind: str) -> npt.NDArray[np.generic]:
    """The values of an array column. ValueError where the bytes are none of ``kind``."""
    if kind in ("float32", "float64"):
        return np.frombuffer(blob, "<f4" if kind == "float32" else "<f8")
    count = int.from_bytes(blob[:4], "big")
    codes = np.frombuffer(blob, np.uint8, -(-count // 4), 4)
    widths = 1 << ((codes[:, None] >> np.array([6, 4, 2, 0], np.uint8)) & 3).reshape(-1)[:count].astype(np.int64)
    data = np.frombuffer(blob, np.uint8, offset=4 + len(codes))
    if int(widths.sum()) != len(data):
        raise ValueError(f"{count} values do not fill {len(blob)} bytes")
    if count and (widths == widths[0]).all():
        return data.view(f"<i{widths[0]}")
    starts, values = np.cumsum(widths) - widths, np.empty(count, np.int64)
    for width in (1, 2, 4, 8):
        chosen = np.flatnonzero(widths == width)
        if len(chosen):
            values[chosen] = data[starts[chosen][:, None] + np.arange(width)].copy().view(f"<i{width}")[:, 0]
    return values
