"""The callback that takes stock when a simulated step is over: what this rank holds, and MindSpore's own peak."""

from __future__ import annotations

import time
from typing import Any

from mindspore import nn, runtime
from mindspore.train import Callback

from mindrecipe.measure.holdings import Held, Holdings, Kind
from mindrecipe.worker.journal import Journal

_FULL_SHAPE = 6  # place of it in the tuples of Cell.parameter_layout_dict


class Inventory(Callback):
    """``taken`` is there when training has ended."""

    def __init__(self, rank: int, journal: Journal) -> None:
        super().__init__()
        self._rank = rank
        self._journal = journal
        self._began = 0.0
        self.taken: Holdings

    def on_train_begin(self, run_context: Any) -> None:
        """All is built; the step compiles the graph."""
        self._began = time.monotonic()
        self._journal.phase("compile")

    def on_train_step_end(self, run_context: Any) -> None:
        """The graph is compiled and has been walked through."""
        took = time.monotonic() - self._began
        self.taken = Holdings(
            rank=self._rank,
            held=tuple(_held(run_context.original_args().train_network)),
            peak_bytes=int(runtime.max_memory_allocated()),
            compile_seconds=took,
        )
        self._journal.phase("train", first_step=1, first_step_time=took)


def _held(network: Any) -> list[Held]:
    """The parameters of this rank's part of the graph. Without a sharded graph there is no layout, and all are."""
    layout = network.parameter_layout_dict
    optimizers = (cell for _, cell in network.cells_and_names() if isinstance(cell, nn.Optimizer))
    weights = {parameter.name for optimizer in optimizers for parameter in optimizer.parameters}
    return [
        Held(
            name=parameter.name,
            kind=_kind(parameter.name, weights),
            full=tuple(layout[parameter.name][_FULL_SHAPE]) if parameter.name in layout else tuple(parameter.shape),
            shape=tuple(parameter.shape),
            dtype=str(parameter.dtype),
        )
        for parameter in network.get_parameters()
        if not layout or parameter.name in layout
    ]


def _kind(name: str, weights: set[str]) -> Kind:
    """Optimizers and step cells name what belongs to a weight by a prefix of their own before the weight's name."""
    if name in weights:
        return "weight"
    prefix, _, weight = name.partition(".")
    if prefix == "accu_grads" and weight in weights:
        return "gradient"
    return "state" if weight in weights else "weight"
