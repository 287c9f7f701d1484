"""Reads texts out of files as a stream: a .txt in blocks of whole lines, a .jsonl a line, a .parquet a row at a time.

Memory is bounded by one block, one line (at most LONGEST_LINE bytes) or a few rows, whatever the file's size.
Texts that are empty or blank are passed over. Every fault is a UserError that names file and line.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from mindrecipe.data.sources import SourceFile
from mindrecipe.errors import UserError

BLOCK_BYTES = 1 << 16
LONGEST_LINE = 1 << 26
LONGEST_UNBROKEN = 1 << 20
PARQUET_ROWS = 64


def _cut(buffer: bytes) -> int:
    """How many bytes of ``buffer`` can be handed on: up to the last line end; 0 to wait for one; a character border in an endless line."""
    line_end = buffer.rfind(b"\n") + 1
    if line_end or len(buffer) < LONGEST_UNBROKEN:
        return line_end
    cut = len(buffer) - 1
    while cut > len(buffer) - 4 and buffer[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


def read_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[str]:
    """The whole of a UTF-8 file as blocks of about ``block_bytes`` that end at line ends.

    Joined they are the file, without a byte-order mark at its beginning.
    """
    line, rest = 1, b""
    with open(path, "rb") as file:
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        while data := file.read(block_bytes):
            buffer = rest + data
            cut = _cut(buffer)
            block, rest = buffer[:cut], buffer[cut:]
            if block:
                yield _decode(block, path, line)
                line += block.count(b"\n")
    if rest:
        yield _decode(rest, path, line)


def _decode(block: bytes, path: str, line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line += block[: error.start].count(b"\n")
        raise UserError(
            f"{path} is not UTF-8 text: byte 0x{block[error.start]:02x} in line {line}",
            where=f"{path}:{line}",
            mend=f"iconv -f LATIN1 -t UTF-8 {path} > {path.removesuffix('.txt')}.utf8.txt",
        ) from None


def _text_of(record: Any, field: str, where: str) -> str | None:
    if not isinstance(record, dict):
        raise UserError(f"a line must be a JSON object, this is {type(record).__name__}", where=where)
    if field not in record:
        known = ", ".join(sorted(record)) or "none"
        mend = f"dataset.text_field={next(iter(record))}" if len(record) == 1 else "dataset.text_field=<one of them>"
        raise UserError(f"there is no field {field!r}; its fields: {known}", where=where, mend=mend)
    text = record[field]
    if text is not None and not isinstance(text, str):
        raise UserError(f"the field {field!r} is {type(text).__name__}, not text", where=where)
    return text


def read_jsonl(path: str, field: str) -> Iterator[str]:
    """The texts of ``field``, a line each; blank lines, null and blank texts are passed over."""
    with open(path, "rb") as file:
        number = 0
        while raw := file.readline(LONGEST_LINE + 1):
            number += 1
            where = f"{path}:{number}"
            if len(raw) > LONGEST_LINE:
                raise UserError(f"line {number} is longer than {LONGEST_LINE >> 20} MiB", where=where, mend="one JSON object a line")
            if raw.isspace():
                continue
            try:
                text = _text_of(json.loads(raw), field, where)
                if text is not None and not text.isascii():
                    text.encode()  # a lone surrogate ("\ud800") is legal JSON and no text
            except json.JSONDecodeError as error:
                raise UserError(f"invalid JSON: {error.msg} at column {error.colno}", where=where, mend="one JSON object a line") from None
            except UnicodeError as error:
                raise UserError(f"not UTF-8 text: {error}", where=where) from None
            if text and not text.isspace():
                yield text


def open_parquet(path: str, field: str) -> Any:
    """The file as a pyarrow ParquetFile whose column ``field`` holds strings. Raises UserError if it is none or has no such column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _told(path, "the file is no Parquet, or damaged"):
        # buffer_size: pages are read as they are needed, not a whole column chunk
        file = pq.ParquetFile(path, buffer_size=1 << 20)
        schema = file.schema_arrow
        names = schema.names
    if field not in names:
        known = ", ".join(names) or "none"
        raise UserError(f"{path} has no column {field!r}; its columns: {known}", where=path, mend="dataset.text_field=<one of them>")
    kind = schema.field(field).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UserError(f"the column {field!r} is {kind}, not string", where=path)
    return file


def read_parquet(path: str, field: str) -> Iterator[str]:
    """The texts of the column ``field``; null and blank texts are passed over."""
    with open_parquet(path, field) as file:
        row = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            place = f"row group {group} (rows {row} to {row + rows - 1})"
            for texts in _row_group(file, path, field, group, place):
                yield from (text for text in texts if text and not text.isspace())
            row += rows


def _row_group(file: Any, path: str, field: str, group: int, place: str) -> Iterator[list[str | None]]:
    """A few rows at a time."""
    with _told(path, place):
        for batch in file.iter_batches(batch_size=PARQUET_ROWS, row_groups=[group], columns=[field], use_threads=False):
            yield batch.column(0).to_pylist()


@contextlib.contextmanager
def _told(path: str, place: str) -> Iterator[None]:
    """Make a UserError of what pyarrow raises where bytes of a Parquet file are damaged, or no text."""
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError as error:
        what = f"{path}: {place}: text that is not UTF-8: byte 0x{error.object[error.start]:02x}"
        raise UserError(what, where=path, mend="the file written anew, with text in UTF-8") from None
    except (OSError, pa.ArrowException) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{path}: {place}: it can't be read: {why}", where=path, mend="the file anew: this one is damaged") from None


def text_bytes(file: SourceFile, field: str) -> int:
    """About how many bytes of text a file holds (a Parquet column is compressed: its own count), without reading it."""
    if file.suffix != ".parquet":
        return file.size
    with open_parquet(file.path, field) as parquet, _told(file.path, "its description"):
        groups = (parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups))
        columns = (group.column(number) for group in groups for number in range(group.num_columns))
        return sum(column.total_uncompressed_size for column in columns if column.path_in_schema == field)


def probe(file: SourceFile, field: str, budget: int) -> int:
    """Read the first ``budget`` characters' worth of texts, at least one. Returns how many were read; raises as reading does."""
    read = 0
    reader = read_blocks(file.path) if file.suffix not in (".jsonl", ".parquet") else texts_of(file, field)
    for text in reader:
        read += len(text)
        if read >= budget:
            break
    return read


def texts_of(file: SourceFile, field: str) -> Iterator[str]:
    """The documents of a .jsonl or .parquet file."""
    return read_parquet(file.path, field) if file.suffix == ".parquet" else read_jsonl(file.path, field)
