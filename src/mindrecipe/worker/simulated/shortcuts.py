"""What a dry run must not do, or needs not do, all in one place. Seen with mindspore 2.9.0.

* **Weights are not drawn.** Nothing is computed with them. Their memory on the host is reserved and never touched, so that it costs
  neither time nor memory: drawing and filling the slices of one of eight ranks of Llama2-7B took gigabytes and minutes.
* **The update does not depend on an overflow.** A step cell updates only ``if not overflow``, which nobody can know in a dry
  run: MindSpore then refuses to compile (or, with inlining off, leaves out of the peak what stands in the branch, Adam's moments).
  An update is what happens in nearly every step, so it always happens here. The loss scale's own update is left out with it.
* **The learning rate is a constant**, for the same reason: mindformers' schedules branch on the number of the step. The schedule is
  built all the same, so that wrong arguments of it are found.
* **One step**, and no checkpoint at its end.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import nn
from mindspore.common.initializer import Initializer
from mindspore.nn.learning_rate_schedule import LearningRateSchedule


class ConstantRate(LearningRateSchedule):
    """The learning rate of every step."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = ms.Tensor(rate, ms.float32)

    def construct(self, global_step: ms.Tensor) -> ms.Tensor:
        """A scalar, whatever the step."""
        return self.rate


def take(native: Any) -> None:
    """Before the Trainer is made: change ``native`` (in memory only) and two classes of mindspore."""
    Initializer.__call__ = _leave_as_it_is
    nn.TrainOneStepWithLossScaleCell.process_loss_scale = _never_overflows
    native.runner_config.epochs = 1
    native.use_skip_data_by_global_norm = False


def straighten(task: Any) -> None:
    """Before ``task`` (mindformers' task trainer) trains: schedules it makes become constant rates."""
    create = task.create_lr_scheduler

    def create_constant(*arguments: Any, **options: Any) -> Any:
        schedule = create(*arguments, **options)
        return ConstantRate(1.0e-4) if isinstance(schedule, nn.Cell) else schedule

    task.create_lr_scheduler = create_constant


def _leave_as_it_is(self: Initializer, array: Any) -> None:
    """In place of filling ``array``, which mindspore has just allocated."""


def _never_overflows(self: Any, overflow: Any) -> bool:
    """In place of the step cell's method of this name; compiled into the graph, where it is a constant."""
    return False
