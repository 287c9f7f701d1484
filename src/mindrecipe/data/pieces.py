"""The corpus as one stream of short pieces, each on its side of the split: what tokenizers work on in parallel.

A document may be a gigabyte; a piece is at most PIECE_CHARACTERS, cut at a line end where there is one. A piece that ends its document
says so, so that the end-of-text id is put behind it and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mindrecipe.data.sources import SourceFile
from mindrecipe.data.split import Corpus, TextSplit
from mindrecipe.data.texts import BLOCK_BYTES, read_blocks, texts_of

PIECE_CHARACTERS = 1 << 14
SMALLEST_BLOCK = 512
BLOCKS_PER_FILE = 256


class Piece(NamedTuple):
    """Some text, whether a document ends with it, and whether it is held out."""

    text: str
    ends: bool
    held_out: bool


def cut(text: str, limit: int = PIECE_CHARACTERS) -> Iterator[str]:
    """``text`` in parts of at most ``limit`` characters: behind the last line end, else before the last space, else anywhere."""
    start = 0
    while len(text) - start > limit:
        stop = text.rfind("\n", start, start + limit) + 1
        if stop <= start:
            stop = text.rfind(" ", start + 1, start + limit)
        if stop <= start:
            stop = start + limit
        yield text[start:stop]
        start = stop
    if start < len(text):
        yield text[start:]


def _cut_document(text: str, ends: bool, held_out: bool) -> Iterator[Piece]:
    waiting: str | None = None
    for part in cut(text):
        if waiting is not None:
            yield Piece(waiting, False, held_out)
        waiting = part
    if waiting is not None:
        yield Piece(waiting, ends, held_out)


def _blocks(file: SourceFile, split: TextSplit | None, held_out: bool) -> Iterator[Piece]:
    """A .txt file: one document, or where texts inside it are held out, a document for each run of blocks on the same side."""
    size = BLOCK_BYTES if split is None else min(max(file.size // BLOCKS_PER_FILE, SMALLEST_BLOCK), BLOCK_BYTES)
    waiting: tuple[str, bool] | None = None
    for block in read_blocks(file.path, size):
        side = held_out if split is None else split.held_out(block)
        if waiting is not None:
            yield from _cut_document(waiting[0], waiting[1] != side, waiting[1])
        waiting = block, side
    if waiting is not None:
        yield from _cut_document(waiting[0], True, waiting[1])


def _pieces_of(file: SourceFile, field: str, split: TextSplit | None, held_out: bool) -> Iterator[Piece]:
    if file.suffix not in (".jsonl", ".parquet"):
        yield from _blocks(file, split, held_out)
        return
    for text in texts_of(file, field):
        side = held_out if split is None else split.held_out(text)
        yield from _cut_document(text, True, side)


def pieces(corpus: Corpus, field: str, *, train_only: bool = False) -> Iterator[Piece]:
    """All of the corpus, file after file, in a fixed order; ``train_only`` leaves out the held-out side."""
    split = TextSplit(corpus.text_fraction) if corpus.text_fraction > 0 else None
    for file in corpus.train:
        for piece in _pieces_of(file, field, split, held_out=False):
            if not (train_only and piece.held_out):
                yield piece
    if not train_only:
        for file in corpus.heldout:
            yield from _pieces_of(file, field, None, held_out=True)


def batches(stream: Iterator[Piece], characters: int, count: int) -> Iterator[list[Piece]]:
    """Consecutive pieces in lists of at most ``count`` pieces and about ``characters`` characters."""
    batch: list[Piece] = []
    size = 0
    for piece in stream:
        batch.append(piece)
        size += len(piece.text)
        if size >= characters or len(batch) >= count:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
