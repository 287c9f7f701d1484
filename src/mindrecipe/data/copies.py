"""Rows that occur twice, in one split or in both, known by their digests."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from mindrecipe.data.rowscan import Scanned


def twice(scanned: Scanned) -> tuple[int, list[tuple[str, int, str]]]:
    """How many rows are copies of earlier ones, and the first of them."""
    digests, places = _joined(scanned)
    order = np.argsort(digests, kind="stable")
    same = np.flatnonzero(digests[order][1:] == digests[order][:-1])
    shown = []
    for at in same[:5]:
        (file, row), (other_file, other) = places(int(order[at + 1])), places(int(order[at]))
        shown.append((file, row, f"it is row {other} of {os.path.basename(other_file)} again"))
    return len(same), shown


def both(train: Scanned, heldout: Scanned) -> tuple[int, list[tuple[str, int, str]]]:
    """How many held-out rows are rows of the training split, and the first of them."""
    ours, places = _joined(heldout)
    theirs, train_places = _joined(train)
    inside = np.flatnonzero(np.isin(ours, theirs))
    shown = []
    for at in inside[:5]:
        (file, row), (other_file, other) = places(int(at)), train_places(int(np.flatnonzero(theirs == ours[at])[0]))
        shown.append((file, row, f"it is row {other} of the training file {os.path.basename(other_file)}"))
    return len(inside), shown


def _joined(scanned: Scanned) -> tuple[npt.NDArray[np.uint64], Places]:
    parts = [part for part in scanned.digests if len(part[1])]
    digests = np.concatenate([part[1] for part in parts]) if parts else np.empty(0, np.uint64)
    return digests, Places(parts)


class Places:
    """From the number of a digest to the file and row it is of."""

    def __init__(self, parts: list[tuple[str, npt.NDArray[np.uint64], npt.NDArray[np.int64]]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part[1]) for part in parts])

    def __call__(self, number: int) -> tuple[str, int]:
        part = int(np.searchsorted(self._ends, number, side="right"))
        path, digests, rows = self._parts[part]
        return path, int(rows[number - int(self._ends[part]) + len(digests)])
