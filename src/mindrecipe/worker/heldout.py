"""Loss on the held-out split, by the trained network's own forward pass.

The network is taken out of the training cell, put into evaluation mode (no dropout; mindformers' models then return logits)
and compiled once more, forward only. Batches are dealt out to the ranks in turn; each rank writes the sum of its token losses
and their number, so that the job's mean is exact however many rows there are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindformers.wrapper.wrapper import get_real_models
from mindspore import dataset as ds
from mindspore import nn, ops

from mindrecipe.worker.environment import Place
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.rundir import RunDir

Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array, Array]
_TELL_EVERY = 60.0
"""Seconds between two signs of life of an evaluation: else the launcher takes a long one for a hang (launch/stall.py)."""


class TokenLosses(nn.Cell):
    """Sum of the cross entropy (nats) of the tokens that count, and their number."""

    def __init__(self, network: nn.Cell, *, legacy: bool) -> None:
        super().__init__()
        self.network = network
        self.legacy = legacy

    def construct(self, tokens: ms.Tensor, targets: ms.Tensor, weights: ms.Tensor) -> tuple[ms.Tensor, ms.Tensor]:
        """Tokens and targets int32 (batch, seq), weights float32 (batch, seq): 1 where a target counts, 0 elsewhere."""
        logits = self.network(tokens)[0] if self.legacy else self.network(input_ids=tokens, labels=targets, loss_mask=weights)
        logits = ops.reshape(logits, (-1, logits.shape[-1])).astype(ms.float32)
        surprise = -ops.gather_elements(ops.log_softmax(logits, -1), 1, ops.reshape(targets, (-1, 1)))
        weights = ops.reshape(weights, (-1, 1))
        return (surprise * weights).sum(), weights.sum()


def evaluate(run: RunDir, native: Any, network: Callable[[], nn.Cell], place: Place, journal: Journal) -> None:
    """Write ``RUN/heldout/rank_N.json``: ``loss_sum`` (nats) and ``tokens`` of this rank's share of the held-out split.

    ``network`` gives the trained network, bare or in its step cell; it is asked where there is something to evaluate.
    At most ``evaluate.max_batches`` batches of the training's micro batch, over all ranks. An event says why where there is
    nothing to evaluate, or no way to: in semi_auto and auto parallel a rank holds slices of the network.
    """
    files = (run.derived.get("dataset") or {}).get("heldout_files") or []
    mode = ms.get_auto_parallel_context("parallel_mode")
    if not files or mode not in (ms.ParallelMode.STAND_ALONE, ms.ParallelMode.DATA_PARALLEL):
        journal.phase("evaluate", skipped="no held-out files" if not files else f"no evaluation in {mode}")
        return
    journal.phase("evaluate", files=len(files))
    cell = TokenLosses(get_real_models(network()), legacy=bool(native.get("use_legacy", True)))
    cell.set_train(False)
    rows = Rows.of(native)
    loss_sum, count = 0.0, 0.0
    told = time.monotonic()
    for done, (tokens, targets, weights) in enumerate(_share(rows.batches(files), run, place)):
        if time.monotonic() - told > _TELL_EVERY:
            told = time.monotonic()
            journal.phase("evaluate", batches=done)
        losses, number = cell(ms.Tensor(tokens), ms.Tensor(targets), ms.Tensor(weights))
        loss_sum += float(losses.asnumpy())
        count += float(number.asnumpy())
    out = run.heldout(place.rank)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"loss_sum": loss_sum, "tokens": int(count)}), encoding="utf-8")


def _share(batches: Iterator[Batch], run: RunDir, place: Place) -> Iterator[Batch]:
    """Every world-th batch, from this rank's on, of the first ``evaluate.max_batches``."""
    most = run.config["evaluate"]["max_batches"]
    for number, batch in enumerate(batches):
        if most is not None and number >= most:
            return
        if number % place.world == place.rank:
            yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How rows are read: ``size`` at once, ``columns`` as in training; ``pad`` and ``ignore`` are the ids that training does not count."""

    size: int
    columns: list[str]
    pad: int
    ignore: int

    @classmethod
    def of(cls, native: Any) -> Rows:
        """From the config that the model was trained with."""
        model = native.model.model_config
        return cls(
            size=int(native.runner_config.mini_batch_size),
            columns=[name for name in native.train_dataset.input_columns if name in ("input_ids", "labels", "loss_mask")],
            pad=int(model.get("pad_token_id", -1)),
            ignore=int(model.get("ignore_token_id", -100)),
        )

    def batches(self, files: list[str]) -> Iterator[Batch]:
        """Tokens, targets and weights (size, seq) in the order of the files. The last batch is filled up with rows that do not count, to
        keep the compiled shape."""
        rows = ds.MindDataset(list(files), columns_list=self.columns, shuffle=False, num_parallel_workers=1)
        batched = rows.batch(self.size, drop_remainder=False, num_parallel_workers=1)
        for row in batched.create_dict_iterator(num_epochs=1, output_numpy=True):
            tokens, targets, weights = self.split(row)
            filled = [np.pad(array, ((0, self.size - len(array)), (0, 0))) for array in (tokens, targets, weights)]
            yield filled[0].astype(np.int32), filled[1].astype(np.int32), filled[2].astype(np.float32)

    def split(self, row: dict[str, Array]) -> Batch:
        """As training does it: rows without labels are their own, one position on; padding tokens (or what loss_mask says) and
        ignored labels do not count."""
        ids = row["input_ids"]
        if "labels" not in row:
            return ids[:, :-1], ids[:, 1:], ids[:, :-1] != self.pad
        weights = row.get("loss_mask", ids != self.pad) * (row["labels"] != self.ignore)
        return ids, np.where(row["labels"] == self.ignore, 0, row["labels"]), weights
