"""Reads a MindRecord file without mindspore: its header is JSON, its index SQLite, so the launcher can look into it in milliseconds.

Layout (MindRecord 3.0, as MindSpore 2.9 writes it): u64 header length, header JSON, then pages from ``header_size`` on; ``<file>.db`` holds
for each row the page and byte range of its blob. A blob is a u64 length and the array columns in order, each behind its u64 big-endian
length if there are several. An integer array is compressed: u32 big-endian count, two bits a value for its width (1, 2, 4, 8 bytes),
the values little-endian, signed.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mindrecipe.errors import UserError

WIDTHS = {"int32": 4, "int64": 8, "float32": 4, "float64": 8}


@dataclass(frozen=True, slots=True)
class RecordFile:
    """What a MindRecord file says about itself: ``columns`` maps a name to its type, ``blobs`` are the array columns in order."""

    path: str
    columns: dict[str, str]
    blobs: tuple[str, ...]
    rows: int
    header_bytes: int
    page_bytes: int
    header: bytes


def broken(path: str, reason: str) -> UserError:
    """The fault of a file whose bytes are no MindRecord's."""
    return UserError(f"{path} cannot be read as MindRecord: {reason}", where=path, mend="write it with mindspore.mindrecord.FileWriter")


@contextlib.contextmanager
def _index(path: str) -> Iterator[sqlite3.Connection]:
    # immutable: readable on read-only disks, and no lock is left on network ones
    connection = sqlite3.connect(f"file:{quote(path)}.db?mode=ro&immutable=1", uri=True)
    try:
        yield connection
    except sqlite3.DatabaseError as error:
        raise broken(path, f"its index {path}.db: {error}") from None
    finally:
        connection.close()


def open_record(path: str) -> RecordFile:
    """Read the header and count the rows. Raises UserError for a file that is no MindRecord or lacks its .db index."""
    if not Path(f"{path}.db").is_file():
        raise UserError(f"{path} has no index beside it: {path}.db is missing", where=path, mend="copy the .db file along with it")
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= 1 << 27:
            raise broken(path, "no MindRecord header (or the file is encrypted)")
        raw = file.read(length)
    try:
        header: dict[str, Any] = json.loads(raw)
        schema = header["schema"][0]
        columns = {str(name): str(kind["type"]) for name, kind in schema["schema"].items()}
        blobs = tuple(schema["blob_fields"])
        header_bytes, page_bytes = int(header["header_size"]), int(header["page_size"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise broken(path, f"no MindRecord header ({type(error).__name__})") from None
    with _index(path) as index:
        (rows,) = index.execute("select count(*) from INDEXES").fetchone()
    return RecordFile(path, columns, blobs, int(rows), header_bytes, page_bytes, raw)


def _integers(blob: bytes) -> list[int]:
    count = int.from_bytes(blob[:4], "big")
    codes, at = 4, 4 + -(-count // 4)
    values = []
    for number in range(count):
        width = 1 << ((blob[codes + number // 4] >> (6 - 2 * (number % 4))) & 3)
        values.append(int.from_bytes(blob[at : at + width], "little", signed=True))
        at += width
    if at != len(blob):
        raise ValueError(f"{count} values do not fill {len(blob)} bytes")
    return values


def _values(blob: bytes, kind: str) -> list[int] | list[float]:
    if kind in ("int32", "int64"):
        return _integers(blob)
    if kind not in WIDTHS:
        raise ValueError(f"a column of type {kind} holds no numbers")
    return list(struct.unpack(f"<{len(blob) // WIDTHS[kind]}{'f' if kind == 'float32' else 'd'}", blob))


def read_rows(record: RecordFile, columns: Sequence[str], which: Iterable[int]) -> Iterator[dict[str, list[int] | list[float]]]:
    """The array ``columns`` of the rows with the numbers ``which``. Raises UserError where the bytes are not what the header says."""
    query = "select PAGE_ID_BLOB, PAGE_OFFSET_BLOB, PAGE_OFFSET_BLOB_END from INDEXES where ROW_ID = ?"
    with _index(record.path) as index, open(record.path, "rb") as file:
        for number in which:
            found = index.execute(query, (number,)).fetchone()
            if found is None:
                raise broken(record.path, f"its index has no row {number}")
            page, start, stop = found
            file.seek(record.header_bytes + page * record.page_bytes + start + 8)
            blob = file.read(stop - start - 8)
            try:
                if len(blob) != stop - start - 8:
                    raise ValueError("the file is cut short")
                yield {name: _values(part, record.columns[name]) for name, part in _parts(record, blob) if name in columns}
            except (ValueError, IndexError, struct.error) as error:
                raise broken(record.path, f"row {number}: {error}") from None


def raw_rows(record: RecordFile, which: range) -> Iterator[tuple[int, list[tuple[str, bytes]]]]:
    """(row, its array columns as bytes) of a range of rows, read in the order they stand in. UserError as :func:`read_rows`."""
    where = "ROW_ID >= ? and ROW_ID < ? order by ROW_ID"
    query = f"select ROW_ID, PAGE_ID_BLOB, PAGE_OFFSET_BLOB, PAGE_OFFSET_BLOB_END from INDEXES where {where}"
    with _index(record.path) as index, open(record.path, "rb") as file:
        for number, page, start, stop in index.execute(query, (which.start, which.stop)):
            file.seek(record.header_bytes + page * record.page_bytes + start + 8)
            blob = file.read(stop - start - 8)
            if len(blob) != stop - start - 8:
                raise broken(record.path, f"row {number}: the file is cut short")
            yield number, list(_parts(record, blob))


def _parts(record: RecordFile, blob: bytes) -> Iterator[tuple[str, bytes]]:
    if len(record.blobs) == 1:
        yield record.blobs[0], blob
        return
    at = 0
    for name in record.blobs:
        length = int.from_bytes(blob[at : at + 8], "big")
        yield name, blob[at + 8 : at + 8 + length]
        at += 8 + length
