"""Writes MindRecord files without mindspore, for tests of what reads them; test_inspect_mindrecord.py reads real ones."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path

PAGE = 1 << 16
HEADER = 1 << 14


def integers(values: Sequence[int]) -> bytes:
    """A compressed integer array: count, two bits a value for its width, the values."""
    codes, data = bytearray(-(-len(values) // 4)), b""
    for place, value in enumerate(values):
        code = next(code for code in range(4) if -(1 << (8 * (1 << code) - 1)) <= value < 1 << (8 * (1 << code) - 1))
        codes[place // 4] |= code << (6 - 2 * (place % 4))
        data += value.to_bytes(1 << code, "little", signed=True)
    return len(values).to_bytes(4, "big") + bytes(codes) + data


def write_record(path: Path, columns: dict[str, str], rows: Sequence[dict[str, Sequence[float]]]) -> str:
    """Write ``rows`` with the array ``columns`` (name -> int32, int64 or float32); returns the path."""
    pages, index = [bytearray()], []
    for number, row in enumerate(rows):
        parts = [
            integers([int(value) for value in row[name]]) if kind.startswith("int") else struct.pack(f"<{len(row[name])}f", *row[name])
            for name, kind in columns.items()
        ]
        body = parts[0] if len(parts) == 1 else b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        blob = (len(body)).to_bytes(8, "little") + body
        if len(pages[-1]) + len(blob) > PAGE:
            pages.append(bytearray())
        index.append((number, len(pages) - 1, len(pages[-1]), len(pages[-1]) + len(blob)))
        pages[-1] += blob
    schema = {name: {"type": kind, "shape": [-1]} for name, kind in columns.items()}
    header = json.dumps({"schema": [{"schema": schema, "blob_fields": list(columns)}], "header_size": HEADER, "page_size": PAGE}).encode()
    content = (len(header).to_bytes(8, "little") + header).ljust(HEADER, b"\0") + b"".join(bytes(page).ljust(PAGE, b"\0") for page in pages)
    path.write_bytes(content)
    Path(f"{path}.db").unlink(missing_ok=True)
    with sqlite3.connect(f"{path}.db") as database:
        database.execute("create table INDEXES (ROW_ID int, PAGE_ID_BLOB int, PAGE_OFFSET_BLOB int, PAGE_OFFSET_BLOB_END int)")
        database.executemany("insert into INDEXES values (?, ?, ?, ?)", index)
    database.close()
    return str(path)
