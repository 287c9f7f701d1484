"""What the ranks agree on after a step: the loss of the whole job, whether to stop, and who kept the others waiting.

mindformers prints what its own rank computed: in data parallel the mean over that rank's share of the batch, with pipeline stages
something that only the last stage knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mindspore as ms
from mindspore import nn, ops


class RankMean(nn.Cell):
    """Mean of a float32 tensor over all ranks, compiled once."""

    def __init__(self, world: int) -> None:
        super().__init__()
        self.sum = ops.AllReduce(ops.ReduceOp.SUM)
        self.share = 1.0 / world
        self.add_flags(skip_auto_parallel_compile=True)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Any shape -> the same shape, equal on all ranks."""
        return self.sum(x) * self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class LossShape:
    """How a rank's loss and the job's are related.

    ``world`` ranks; ``stages`` pipeline stages; ``mean`` where ranks hold the loss of their own rows (data and hybrid parallel);
    ``copies`` of the loss that are summed in one step (micro batches of a pipeline, interleaved copies, accumulated steps).
    """

    world: int
    stages: int
    mean: bool
    copies: int

    @classmethod
    def of(cls, native: Any, world: int) -> LossShape:
        """From the config as mindformers' Trainer left it, as its MFLossMonitor reads it."""
        stages = int(ms.get_auto_parallel_context("pipeline_stages"))
        per_token = bool(native.get("calculate_per_token_loss", False))
        copies = int(native.get("micro_batch_interleave_num") or 1)
        if stages > 1 and not per_token:
            copies *= int(native.parallel_config.micro_batch_num)
        if not per_token:
            copies *= int(native.runner_config.gradient_accumulation_steps or 1)
        whole = (ms.ParallelMode.DATA_PARALLEL, ms.ParallelMode.HYBRID_PARALLEL)
        mean = world > 1 and ms.get_auto_parallel_context("parallel_mode") in whole
        return cls(world=world, stages=stages, mean=mean, copies=copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The same on every rank: the job's ``loss``, whether any rank was asked to ``stop``, and each rank's seconds on its host."""

    loss: float
    stop: bool
    host_times: tuple[float, ...]


class Agreement:
    """One AllReduce of (ranks + 2) floats a step where there are several ranks, nothing where there is one."""

    def __init__(self, shape: LossShape, rank: int) -> None:
        self._shape = shape
        self._rank = rank
        self._mean = RankMean(shape.world) if shape.world > 1 else None
        per_stage = shape.world // shape.stages
        self._weight = 1.0 / shape.copies
        if shape.stages > 1:  # only ranks of the last stage hold a loss: their mean is the mean over all ranks times the stages
            self._weight *= shape.stages if rank >= shape.world - per_stage else 0.0

    def __call__(self, loss: float, *, stop: bool, host_time: float) -> Agreed:
        """Every rank must call this at every step. ``host_time``: seconds it spent waiting for data and in callbacks."""
        own = loss * self._weight if self._weight else 0.0
        if self._mean is None:
            return Agreed(loss=own, stop=stop, host_times=(host_time,))
        times = [0.0] * self._shape.world
        times[self._rank] = host_time
        means = self._mean(ms.Tensor([own, float(stop), *times], ms.float32)).asnumpy()
        shared = self._shape.mean or self._shape.stages > 1  # elsewhere every rank holds the job's loss itself
        host_times = tuple(float(mean) * self._shape.world for mean in means[2:])
        return Agreed(loss=float(means[0]) if shared else own, stop=bool(means[1] > 0), host_times=host_times)
