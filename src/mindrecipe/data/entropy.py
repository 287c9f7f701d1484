"""Unigram counts of both splits, and what a model that ignores context would reach on the held-out one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mindrecipe.data.pack import Ids


class UnigramCounts:
    """How often each id is a target, counted as rows stream by: int64[vocab_size]."""

    def __init__(self, vocab_size: int) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(vocab_size, np.int64)

    def add(self, targets: Ids) -> None:
        """Count ``targets`` (any shape). Raises ValueError for an id outside the vocabulary."""
        found = np.bincount(targets.ravel(), minlength=len(self.counts))
        if len(found) > len(self.counts):
            raise ValueError(f"id {len(found) - 1} is beyond the {len(self.counts)} ids of the model")
        self.counts += found

    @property
    def total(self) -> int:
        """Targets counted so far."""
        return int(self.counts.sum())


def unigram_entropy(train: UnigramCounts, heldout: UnigramCounts) -> float:
    """Cross entropy (nats a token) of the held-out targets under the training split's counts with add-one smoothing."""
    log_probability = np.log(train.counts + 1) - np.log(train.total + len(train.counts))
    return float(-(heldout.counts @ log_probability) / heldout.total)
