"""Small MindRecords that a small model can learn: an order-1 Markov chain over 256 ids, in both layouts.

A script of its own, because it imports mindspore: python make_data.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from mindspore.mindrecord import FileWriter

SEQ = 64
VOCAB = 256
TRAIN_ROWS = 96
HELDOUT_ROWS = 20


def rows(count: int, seed: int) -> np.ndarray:
    """int32 (count, SEQ + 1): each id is followed by one of four ids of its own."""
    followers = np.random.default_rng(7).integers(3, VOCAB, size=(VOCAB, 4))
    draw = np.random.default_rng(seed)
    out = np.empty((count, SEQ + 1), np.int32)
    out[:, 0] = draw.integers(3, VOCAB, size=count)
    for position in range(SEQ):
        out[:, position + 1] = followers[out[:, position], draw.integers(0, 4, size=count)]
    return out


def write(path: Path, ids: np.ndarray, *, labelled: bool) -> None:
    writer = FileWriter(str(path), 1, overwrite=True)
    if labelled:
        fields = {
            "input_ids": ("int32", [SEQ]),
            "labels": ("int32", [SEQ]),
            "loss_mask": ("float32", [SEQ]),
            "position_ids": ("int32", [SEQ]),
        }
    else:
        fields = {"input_ids": ("int32", [SEQ + 1])}
    writer.add_schema({name: {"type": kind, "shape": shape} for name, (kind, shape) in fields.items()}, "test rows")
    positions, ones = np.arange(SEQ, dtype=np.int32), np.ones(SEQ, np.float32)
    if labelled:
        data = [{"input_ids": row[:-1].copy(), "labels": row[1:].copy(), "loss_mask": ones, "position_ids": positions} for row in ids]
    else:
        data = [{"input_ids": row} for row in ids]
    writer.write_raw_data(data)
    writer.commit()


def main(folder: Path) -> None:
    for split, count, seed in (("train", TRAIN_ROWS, 1), ("heldout", HELDOUT_ROWS, 2)):
        ids = rows(count, seed)
        np.save(folder / f"{split}.npy", ids)
        write(folder / f"shifted_{split}.mindrecord", ids, labelled=False)
        write(folder / f"labelled_{split}.mindrecord", ids, labelled=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
