"""Pieces of text become ids: plain bytes, or a tokenizer of the `tokenizers` library, on all cores.

Each core encodes batches of its own (the library lets go of Python's lock). Its own threads, which share one batch and wait for each
other at its end, cost more CPU for the same ids; only training the BPE uses them.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from mindrecipe.data.pack import Ids
from mindrecipe.data.pieces import PIECE_CHARACTERS, Piece
from mindrecipe.data.spec import DataSpec
from mindrecipe.data.vocabulary import BYTE_VALUES, special_ids, text_ids
from mindrecipe.data.words import WordIds, cuts_words
from mindrecipe.errors import UserError

PARALLEL = "TOKENIZERS_PARALLELISM"
PIECES_PER_BATCH = 1024
# the library holds some 400 bytes for each id of a batch while it works on it
BATCH_CHARACTERS = 4 * PIECE_CHARACTERS
MOST_WORKERS = 16
# batches whose ids may wait to be packed (at most 256 kB each): tokenizing goes on while the builder imports mindspore
LOOKAHEAD = 128


class Encoder(Protocol):
    """Turns pieces into two streams of ids, eos behind each document: (train int32[n], held-out int32[m])."""

    @property
    def workers(self) -> int:
        """Threads that encode batches at once with profit."""

    def encode(self, batch: Sequence[Piece]) -> tuple[Ids, Ids]:
        """The ids of ``batch``, in its order."""


class ByteEncoder:
    """One id a byte: byte b has the b-th smallest id that is not special (3 + b by default)."""

    def __init__(self, spec: DataSpec) -> None:
        self._ids = np.array(text_ids(BYTE_VALUES, special_ids(spec)), np.int32)
        self._eos = np.array([spec.eos_token_id], np.int32)

    @property
    def workers(self) -> int:
        """One: copying bytes holds Python's lock."""
        return 1

    def encode(self, batch: Sequence[Piece]) -> tuple[Ids, Ids]:
        """The ids of the pieces' UTF-8 bytes."""
        sides: tuple[list[Ids], list[Ids]] = ([np.empty(0, np.int32)], [np.empty(0, np.int32)])
        for piece in batch:
            side = sides[piece.held_out]
            side.append(self._ids[np.frombuffer(piece.text.encode(), np.uint8)])
            if piece.ends:
                side.append(self._eos)
        return np.concatenate(sides[0]), np.concatenate(sides[1])

    def decode(self, ids: Ids) -> bytes:
        """The bytes behind ``ids``; special ids are passed over."""
        return np.searchsorted(self._ids, ids[np.isin(ids, self._ids)]).astype(np.uint8).tobytes()


class LibraryEncoder:
    """A `tokenizers` Tokenizer; text that looks like a special token stays text."""

    def __init__(self, tokenizer: Any, eos_token_id: int) -> None:
        os.environ[PARALLEL] = "false"  # one thread a batch
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self._eos = eos_token_id
        self._words = WordIds(tokenizer) if cuts_words(tokenizer) else None
        self._words_turn = threading.Lock()

    @property
    def workers(self) -> int:
        """A thread a core; one less where words are looked up, which keeps the first busy while the builder writes on another."""
        cores = os.cpu_count() or 1
        return min(cores if self._words is None else max(cores - 1, 1), MOST_WORKERS)

    def encode(self, batch: Sequence[Piece]) -> tuple[Ids, Ids]:
        """The ids of the pieces, encoded on this thread.

        One thread at a time looks words up, which needs Python's lock; the others meanwhile use the library, which does not.
        """
        words = self._words if self._words is not None and self._words_turn.acquire(blocking=False) else None
        try:
            return self._encode(batch, words)
        finally:
            if words is not None:
                self._words_turn.release()

    def _encode(self, batch: Sequence[Piece], words: WordIds | None) -> tuple[Ids, Ids]:
        asked = [piece.text for piece in batch if words is None or not piece.text.isascii()]
        answers = iter(self.tokenizer.encode_batch_fast(asked, add_special_tokens=False))
        sides = array("i"), array("i")
        for piece in batch:
            side = sides[piece.held_out]
            if words is not None and piece.text.isascii():
                side.extend(words.ids(piece.text))
            else:
                side.fromlist(next(answers).ids)
            if piece.ends:
                side.append(self._eos)
        return np.asarray(sides[0], np.int32), np.asarray(sides[1], np.int32)


def library_encoder(text: str, spec: DataSpec) -> LibraryEncoder:
    """An encoder from the text of a tokenizer.json. Raises UserError where the library refuses it."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises bare Exception
        raise UserError(f"{spec.tokenizer} is not a tokenizer.json that `tokenizers` reads: {error}", where="dataset.tokenizer") from None
    return LibraryEncoder(tokenizer, spec.eos_token_id)


def encode_all(encoder: Encoder, batches: Iterable[list[Piece]]) -> Iterator[tuple[int, Ids, Ids]]:
    """(bytes of text, train ids, held-out ids) of each batch, in order; several batches are encoded at once, ahead of the caller."""

    def encode(batch: list[Piece]) -> tuple[int, Ids, Ids]:
        return (sum(len(piece.text.encode()) for piece in batch), *encoder.encode(batch))

    pending: deque[Future[tuple[int, Ids, Ids]]] = deque()
    with ThreadPoolExecutor(encoder.workers, thread_name_prefix="encode") as pool:
        try:
            for batch in batches:
                pending.append(pool.submit(encode, batch))
                if len(pending) > LOOKAHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
