"""watch.loss_spike=skip: a step whose loss exceeds a limit makes no update. The limit follows the losses: the host sets it step by step.

mindformers' step leaves an update out when the gradients' norm reaches a threshold (``use_skip_data_by_global_norm``). Here that
threshold is computed in every step from its loss: zero where the loss is beyond the limit, else the one that was asked for.
"""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindformers.wrapper.wrapper import MFTrainOneStepCell
from mindspore import Parameter, nn, ops

from mindrecipe.worker.portable.step_cell import PortableTrainOneStepCell

_THRESHOLD = "global_norm_spike_threshold"


class LossGate(nn.Cell):
    """From a rank's loss, of one element, to the threshold of the gradients' norm. Rank 0's limit counts, for the mean of all ranks' losses
    (as worker/loss.py takes it), so that all of them decide alike.
    """

    def __init__(self, threshold: float, rank: int, world: int) -> None:
        super().__init__()
        self.limit = Parameter(ms.Tensor(math.inf if rank == 0 else 0.0, ms.float32), name="loss_gate_limit", requires_grad=False)
        self.threshold = ms.Tensor(threshold, ms.float32)
        self.closed = ms.Tensor(0.0, ms.float32)
        self.several = world > 1
        self.share = 1.0 / world
        if self.several:
            self.sum = ops.AllReduce(ops.ReduceOp.SUM)

    def construct(self, loss: ms.Tensor) -> ms.Tensor:
        """A float32 scalar; a loss that is not a number passes: that is another watcher's."""
        loss, limit = loss.astype(ms.float32).reshape((1,)), self.limit.reshape((1,))
        if self.several:
            loss, limit = self.sum(loss) * self.share, self.sum(limit)
        return ops.select((loss > limit).reshape(()), self.closed, self.threshold)

    def set_limit(self, limit: float) -> None:
        """On rank 0, between two steps: the largest loss that still makes an update."""
        self.limit.set_data(ms.Tensor(limit, ms.float32))


def _arm(cell: Any) -> None:
    threshold = float(getattr(cell, _THRESHOLD))
    delattr(cell, _THRESHOLD)
    cell.loss_gate = LossGate(threshold, *_place())
    setattr(cell, _THRESHOLD, Parameter(ms.Tensor(threshold, ms.float32), name="loss_gate_threshold", requires_grad=False))


def _place() -> tuple[int, int]:
    from mindspore.communication import get_group_size, get_rank

    alone = ms.get_auto_parallel_context("parallel_mode") == ms.ParallelMode.STAND_ALONE
    return (0, 1) if alone else (get_rank(), get_group_size())


@MindFormerRegister.register(MindFormerModuleType.WRAPPER)
class GatedTrainOneStepCell(MFTrainOneStepCell):
    """MFTrainOneStepCell with a gate."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _arm(self)

    def start_overflow_check(self, pre_cond: ms.Tensor, compute_input: Any) -> tuple[Any, Any]:
        """The one place of a step that is given its loss."""
        self.global_norm_spike_threshold = self.loss_gate(pre_cond)
        checked: tuple[Any, Any] = super().start_overflow_check(pre_cond, compute_input)
        return checked


@MindFormerRegister.register(MindFormerModuleType.WRAPPER)
class GatedPortableTrainOneStepCell(PortableTrainOneStepCell):
    """PortableTrainOneStepCell with a gate."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _arm(self)

    def start_overflow_check(self, pre_cond: ms.Tensor, compute_input: Any) -> tuple[ms.Tensor, Any]:
        """The one place of a step that is given its loss."""
        self.global_norm_spike_threshold = self.loss_gate(pre_cond)
        return super().start_overflow_check(pre_cond, compute_input)


GATED = {
    "MFTrainOneStepCell": GatedTrainOneStepCell.__name__,
    "PortableTrainOneStepCell": GatedPortableTrainOneStepCell.__name__,
}
"""Step cells that can be gated, and what replaces them."""
