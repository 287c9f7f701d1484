"""Reads and tokenizes the corpus in a process of its own, beside the one that writes: neither waits for the other's Python lock.

The parent sends a pickle of (spec, corpus, tokenizer.json text or None) to ``python -m mindrecipe.data.encode`` and gets frames back:
three little-endian int64 (bytes of text, train ids, held-out ids) and the ids, int32. The pipe holds the child back where the parent is
slower. A frame of kind END or FAULT (with a JSON {what, where, mend}) is the last; if the parent is gone, writing fails and the child ends.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import numpy as np

from mindrecipe.data.pack import Ids
from mindrecipe.data.pieces import batches, pieces
from mindrecipe.data.spec import DataSpec
from mindrecipe.data.split import Corpus
from mindrecipe.data.streams import private_stdout
from mindrecipe.data.tokenizer import BATCH_CHARACTERS, PIECES_PER_BATCH, ByteEncoder, encode_all, library_encoder
from mindrecipe.errors import UserError

FRAME = struct.Struct("<qqq")
END = -1
FAULT = -2
# threads that come back from the library for Python's lock get it within a millisecond
SWITCH_SECONDS = 0.001


def encoded(spec: DataSpec, corpus: Corpus, tokenizer: str | None) -> Iterator[tuple[int, Ids, Ids]]:
    """(bytes of text, train ids, held-out ids) of consecutive parts of the corpus, from a child process that works ahead.

    ``tokenizer`` is the text of a tokenizer.json, None for plain bytes. Raises UserError for faults of the files and RuntimeError where
    the child dies. The child ends with the generator.
    """
    with subprocess.Popen([sys.executable, "-m", "mindrecipe.data.encode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            with child.stdin:
                pickle.dump((spec, corpus, tokenizer), child.stdin)
            # before the first part is asked for: both processes start at once
            yield 0, np.empty(0, np.int32), np.empty(0, np.int32)
            yield from _frames(child.stdout)
        finally:
            child.kill()  # has ended by itself, unless we stop early


def _frames(pipe: IO[bytes]) -> Iterator[tuple[int, Ids, Ids]]:
    while True:
        head = pipe.read(FRAME.size)
        if len(head) < FRAME.size:
            raise RuntimeError("the tokenizing process died; its own message is above, if it had time for one")
        size, train, heldout = FRAME.unpack(head)
        if size == END:
            return
        if size == FAULT:
            raise UserError(**json.loads(pipe.read(train)))
        ids = np.frombuffer(pipe.read(4 * (train + heldout)), np.int32)
        yield size, ids[:train], ids[train:]


def _send(spec: DataSpec, corpus: Corpus, tokenizer: str | None, out: IO[bytes]) -> None:
    encoder = ByteEncoder(spec) if tokenizer is None else library_encoder(tokenizer, spec)
    stream = batches(pieces(corpus, spec.text_field), BATCH_CHARACTERS, PIECES_PER_BATCH)
    for size, train, heldout in encode_all(encoder, stream):
        out.write(FRAME.pack(size, len(train), len(heldout)) + train.tobytes() + heldout.tobytes())


def main() -> int:
    """Serve one parent; returns the exit code."""
    sys.setswitchinterval(SWITCH_SECONDS)
    spec, corpus, tokenizer = pickle.load(sys.stdin.buffer)
    with contextlib.suppress(BrokenPipeError), private_stdout() as out:  # the parent has gone: nobody is there to tell
        try:
            _send(spec, corpus, tokenizer, out)
            out.write(FRAME.pack(END, 0, 0))
        except UserError as error:
            message = json.dumps({"what": error.what, "where": error.where, "mend": error.mend}).encode()
            out.write(FRAME.pack(FAULT, len(message), 0) + message)
        out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
