"""Writes rows of ids as MindRecord files. Only the builder process imports this: it brings mindspore (2 s, some 400 MB).

MindSpore preallocates a 16 MiB header and 32 MiB pages; small pages make small files, and bound the memory that building a file's index
takes (it holds one page of row addresses at a time, about 1.4 kB a row). Integer columns are stored compressed, 1 to 4 bytes a value.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindrecipe.data.pack import Ids
from mindrecipe.data.spec import COLUMNS

HEADER_BYTES = 1 << 20
SMALLEST_PAGE = 1 << 18
LARGEST_PAGE = 1 << 28
FILE_BYTES = 1 << 29
ROWS_PER_CALL = 4096


def load_mindspore() -> Any:
    """mindspore.mindrecord, imported at the first call."""
    import mindspore.mindrecord

    return mindspore.mindrecord


def page_bytes(row_bytes: int) -> int:
    """A page that holds at least four rows: a power of two from 256 KiB. Raises ValueError for rows no MindRecord page can hold."""
    size = SMALLEST_PAGE
    while size < 4 * row_bytes:
        size *= 2
    if size > LARGEST_PAGE:
        raise ValueError(f"a row of {row_bytes} bytes is too long for a MindRecord page")
    return size


class RowWriter:
    """Writes the rows of one split to ``folder/<split>-00000.mindrecord`` and on, a new file each 512 MiB of ids.

    Layout "shifted": column input_ids int32[seq_length + 1]. Layout "labelled": input_ids, labels (the next ids) and loss_mask (0 or 1),
    each int32[seq_length]: mindformers' own loaders feed its models int32 masks too, and position_ids matter under use_eod_reset only.
    """

    def __init__(self, folder: Path, split: str, layout: str, seq_length: int) -> None:
        self.rows = 0
        self.files: list[Path] = []
        self._folder, self._split, self._columns = folder, split, COLUMNS[layout]
        self._width = seq_length + 1 if layout == "shifted" else seq_length
        # MindRecord's row of several arrays: each behind its length in bytes, big-endian; a single array stands alone
        fields = [(f"bytes_{name}", ">u8") if part == 0 else (name, "<i4", (self._width,)) for name in self._columns for part in (0, 1)]
        self._record = np.dtype(fields if len(self._columns) > 1 else fields[1:])
        self._limit = max(FILE_BYTES // self._record.itemsize, 1)
        self._writer: Any = None
        self._in_file = 0

    def write(self, rows: Ids, mask: npt.NDArray[np.int32] | None = None) -> None:
        """Append ``rows`` int32[n, seq_length + 1].

        ``mask`` int32[n, seq_length] is the loss mask of layout "labelled", all 1 if not given.
        """
        for start in range(0, len(rows), ROWS_PER_CALL):
            part = rows[start : start + ROWS_PER_CALL]
            self._append(self._records(part, None if mask is None else mask[start : start + ROWS_PER_CALL]))

    def _records(self, rows: Ids, mask: npt.NDArray[np.int32] | None) -> npt.NDArray[np.void]:
        records = np.empty(len(rows), self._record)
        if len(self._columns) == 1:
            records["input_ids"] = rows
            return records
        for name in self._columns:
            records[f"bytes_{name}"] = self._width * 4
        records["input_ids"], records["labels"] = rows[:, :-1], rows[:, 1:]
        records["loss_mask"] = 1 if mask is None else mask
        return records

    def _append(self, records: npt.NDArray[np.void]) -> None:
        while len(records):
            if self._writer is None:
                self._open(records[0])
                records = records[1:]
                continue
            part = records[: self._limit - self._in_file]
            content, size = part.tobytes(), self._record.itemsize
            blobs = [content[at : at + size] for at in range(0, len(content), size)]
            # past FileWriter.write_raw_data, which checks and copies row by row in Python: 7 times as fast at 64 ids a row
            if blobs:
                self._writer._writer._writer.write_raw_data({}, blobs, True, False)
            self._count(len(blobs))
            records = records[len(part) :]

    def _open(self, first: npt.NDArray[np.void]) -> None:
        path = self._folder / f"{self._split}-{len(self.files):05d}.mindrecord"
        self._writer = writer = load_mindspore().FileWriter(str(path))
        writer.set_header_size(HEADER_BYTES)
        writer.set_page_size(page_bytes(self._record.itemsize))
        writer.add_schema({name: {"type": "int32", "shape": [-1]} for name in self._columns}, "rows of token ids")
        writer.write_raw_data([{name: np.ascontiguousarray(first[name]) for name in self._columns}])
        self.files.append(path)
        self._in_file = 0
        self._count(1)

    def _count(self, rows: int) -> None:
        self.rows += rows
        self._in_file += rows
        if self._in_file >= self._limit:
            self._commit()

    def _commit(self) -> None:
        if self._writer is None:
            return
        self._writer.commit()
        self._writer = None
        for path in (self.files[-1], Path(f"{self.files[-1]}.db")):
            os.chmod(path, 0o644)  # MindSpore makes them private to the user, and caches are shared
            with open(path, "rb+") as file:
                os.fsync(file.fileno())

    def close(self) -> None:
        """Write the last file's index and flush all to disk. No file is made where there was no row."""
        self._commit()
