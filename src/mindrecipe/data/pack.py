"""Packs a stream of ids into rows of S + 1: row i holds ids i*S to i*S + S.

Rows overlap by one id, so that every id but the stream's first is a target exactly once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


class Packer:
    """Cuts a stream of ids, given in any portions, into rows of ``seq_length + 1``."""

    def __init__(self, seq_length: int) -> None:
        self.seq_length = seq_length
        self._rest: Ids = np.empty(0, np.int32)

    def push(self, ids: Ids) -> Ids:
        """Take the next ids; return the rows that are complete now, int32[n, seq_length + 1] (n may be 0)."""
        buffer = np.concatenate((self._rest, ids)) if len(self._rest) else ids
        count = max(len(buffer) - 1, 0) // self.seq_length
        self._rest = buffer[count * self.seq_length :].copy()
        if not count:
            return np.empty((0, self.seq_length + 1), np.int32)
        windows = np.lib.stride_tricks.sliding_window_view(buffer, self.seq_length + 1)
        return np.ascontiguousarray(windows[:: self.seq_length][:count])

    @property
    def rest(self) -> Ids:
        """The ids that fill no row yet, the first of them already a target of the last row: 0 to ``seq_length`` ids."""
        return self._rest


def padded_row(rest: Ids, seq_length: int, fill: int) -> tuple[Ids, Ids]:
    """``rest`` (2 or more ids) filled up to a row: (int32[1, seq_length + 1], mask int32[1, seq_length] with 1 for each real target)."""
    row = np.full((1, seq_length + 1), fill, np.int32)
    row[0, : len(rest)] = rest
    mask = np.zeros((1, seq_length), np.int32)
    mask[0, : len(rest) - 1] = 1
    return row, mask
