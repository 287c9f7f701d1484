"""Checks a data set as code is checked: every row, or a sample spread over all files, in parallel, in bounded memory.

Rows are read as the launcher can (recordfile.py), without mindspore. What is found is told with file and row.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass

from mindrecipe.data.copies import both, twice
from mindrecipe.data.recordfile import RecordFile, open_record
from mindrecipe.data.rowscan import Scanned, Wanted, scan

#: rows read one after another: a seek less for each
BLOCK = 256
#: digests kept for the search of rows that occur twice: 32 MiB
DIGESTS = 1 << 22
#: kind -> severity, what it does to a training
KINDS: dict[str, tuple[str, str]] = {
    "ragged": ("error", "a batch needs rows of one length: the loss fails to broadcast"),
    "ids": ("error", "the embedding has no such row: CPUs stop, Ascend reads other memory"),
    "labels": ("error", "the loss is computed of another class"),
    "shift": ("error", "the model learns to copy, not to predict"),
    "zeros": ("warning", "a row of zeros is what an unwritten row looks like"),
    "padding": ("warning", "it costs a row of compute and teaches nothing"),
    "no_target": ("warning", "it costs a row of compute and teaches nothing"),
    "mask": ("warning", "the loss is weighted by it"),
    "duplicate": ("warning", "it is trained on more often than others"),
    "leak": ("warning", "the held-out loss is partly one of texts that were trained on"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """How rows are shared: ``rows_per_rank`` equal for all; ``repeated`` rows fill the last shards; ``dropped`` a rank and epoch."""

    ranks: int
    rows_per_rank: int
    repeated: int
    steps_per_epoch: int
    dropped: int
    read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One kind of fault: how often, what it does, and the first places."""

    kind: str
    severity: str
    split: str
    count: int
    why: str
    places: list[tuple[str, int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReport:
    """What a data check saw. ``complete``: every row was read. ``lengths``: (from, to, rows) by tokens trained on in a row."""

    files: int
    rows: int
    rows_read: int
    tokens_read: int
    complete: bool
    seconds: float
    tokens_per_second: float
    processes: int
    lengths: list[tuple[int, int, int]]
    shards: Shards
    finds: list[Find]

    @property
    def errors(self) -> int:
        """Kinds of faults that would stop or falsify the training."""
        return sum(find.severity == "error" for find in self.finds)


@dataclass(frozen=True, slots=True)
class _Chunk:
    split: str
    record: RecordFile
    start: int
    stop: int


def shards(rows: int, ranks: int, per_loader: int, drop_remainder: bool, *, read: int | None = None) -> Shards:
    """MindSpore's arithmetic: each rank gets ceil(rows / ranks) rows, rows at the beginning are repeated to fill the last shards."""
    share = math.ceil(rows / ranks) if ranks else 0
    steps = share // per_loader if drop_remainder else math.ceil(share / per_loader)
    dropped = share - steps * per_loader if drop_remainder else 0
    return Shards(
        ranks=ranks, rows_per_rank=share, repeated=share * ranks - rows, steps_per_epoch=steps, dropped=dropped, read=read or ranks
    )


def check_rows(
    train: Sequence[str],
    heldout: Sequence[str],
    wanted: Wanted,
    shared: Shards,
    *,
    most_rows: int | None = None,
    most_seconds: float | None = None,
    processes: int = 1,
) -> DataReport:
    """Read ``train`` and ``heldout`` (MindRecord files) and tell what is wrong.

    ``most_rows`` of each split, spread evenly, are read (None: all), for at most about ``most_seconds``. UserError for unreadable files.
    """
    began = time.monotonic()
    splits = {"train": [open_record(path) for path in train], "held-out": [open_record(path) for path in heldout]}
    total = sum(record.rows for records in splits.values() for record in records)
    keep = max(1, math.ceil(min(total, 2 * most_rows if most_rows else total) / DIGESTS))
    wanted = Wanted(**{**{name: getattr(wanted, name) for name in wanted.__slots__}, "keep": keep})
    scanned = {name: Scanned() for name in splits}
    chunks = list(_interleaved([_chunks(name, records, most_rows) for name, records in splits.items()]))
    deadline = began + most_seconds if most_seconds is not None else math.inf
    for chunk, found in _work(chunks, wanted, deadline, processes):
        scanned[chunk.split].add(found)
    seconds = max(time.monotonic() - began, 1e-9)
    read, tokens = sum(each.rows for each in scanned.values()), sum(each.tokens for each in scanned.values())
    return DataReport(
        files=len(train) + len(heldout),
        rows=total,
        rows_read=read,
        tokens_read=tokens,
        complete=read == total,
        seconds=seconds,
        tokens_per_second=read * wanted.seq_length / seconds,
        processes=processes,
        lengths=histogram(scanned["train"].lengths, wanted.seq_length),
        shards=shared,
        finds=_finds(scanned, keep),
    )


def histogram(lengths: Counter[int], seq_length: int) -> list[tuple[int, int, int]]:
    """Rows by tokens trained on: the empty ones, eight equal steps, the full ones."""
    edges = sorted({0, *(seq_length * part // 8 for part in range(1, 8)), seq_length - 1, seq_length})
    pairs = [(0, 0), *((low + 1, high) for low, high in itertools.pairwise(edges))]
    counted = [(low, high, sum(count for length, count in lengths.items() if low <= length <= high)) for low, high in pairs if low <= high]
    return [entry for entry in counted if entry[2]]


def _chunks(split: str, records: Sequence[RecordFile], most_rows: int | None) -> Iterator[_Chunk]:
    """Blocks of rows: all, or as many as hold ``most_rows``, at even distances over all files (the first and the last among them)."""
    blocks = [_Chunk(split, record, start, min(start + BLOCK, record.rows)) for record in records for start in range(0, record.rows, BLOCK)]
    most = len(blocks) if most_rows is None else max(1, most_rows // BLOCK)
    if most >= len(blocks):
        yield from blocks
        return
    yield from (blocks[round(place * (len(blocks) - 1) / max(most - 1, 1))] for place in _spread(most))


def _spread(count: int) -> Iterator[int]:
    """0..count-1, ends first, then ever finer: what is cut off at any time is spread evenly."""
    width = len(bin(max(count - 1, 1))) - 2
    order = sorted(range(count), key=lambda number: int(f"{number:0{width}b}"[::-1], 2))
    yield from dict.fromkeys([0, count - 1, *order])


def _interleaved(streams: Sequence[Iterator[_Chunk]]) -> Iterator[_Chunk]:
    waiting = list(streams)
    while waiting:
        for stream in list(waiting):
            chunk = next(stream, None)
            if chunk is None:
                waiting.remove(stream)
            else:
                yield chunk


def _work(chunks: Sequence[_Chunk], wanted: Wanted, deadline: float, processes: int) -> Iterator[tuple[_Chunk, Scanned]]:
    """Scan the chunks until ``deadline``; at least the first is scanned."""
    if processes <= 1 or len(chunks) < 2 * processes:
        for place, chunk in enumerate(chunks):
            if place and time.monotonic() > deadline:
                return
            yield chunk, scan(chunk.record, chunk.start, chunk.stop, wanted)
        return
    # spawned: a fork of a process with threads may lock up
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting, todo = {}, iter(chunks)
        for chunk in todo:
            waiting[pool.submit(scan, chunk.record, chunk.start, chunk.stop, wanted)] = chunk
            if len(waiting) < 4 * processes and time.monotonic() < deadline:
                continue
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            yield from ((waiting.pop(future), future.result()) for future in done)
            if time.monotonic() > deadline:
                break
        yield from ((chunk, future.result()) for future, chunk in waiting.items())


def _finds(scanned: dict[str, Scanned], keep: int) -> list[Find]:
    found = [
        Find(kind=kind, severity=KINDS[kind][0], split=split, count=count, why=KINDS[kind][1], places=places)
        for split, each in scanned.items()
        for kind, (count, places) in each.finds.items()
    ]
    for split, each in scanned.items():
        count, places = twice(each)
        if count:
            found.append(_estimated("duplicate", split, count, places, keep))
    count, places = both(scanned["train"], scanned["held-out"])
    if count:
        found.append(_estimated("leak", "held-out", count, places, keep))
    return sorted(found, key=lambda find: (find.severity != "error", -find.count))


def _estimated(kind: str, split: str, count: int, places: list[tuple[str, int, str]], keep: int) -> Find:
    return Find(kind=kind, severity=KINDS[kind][0], split=split, count=count * keep, why=KINDS[kind][1], places=places)
