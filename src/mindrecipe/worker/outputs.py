"""What mindformers' training step returns, as plain numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np


class StepOutputs(NamedTuple):
    """Of one rank. ``loss`` as the network returned it; ``grad_norm`` is None without clipping, which is what computes it;
    ``square_sums`` of each parameter's gradient (an array) where the cell has ``local_norm`` on, else None."""

    loss: float
    overflow: bool
    loss_scale: float | None
    lr: float | None
    grad_norm: float | None
    square_sums: Any = None

    @classmethod
    def of(cls, outputs: Any) -> StepOutputs:
        """From the tuple (loss, overflow, loss scale, learning rate, global norm, ...) of MFTrainOneStepCell and its relatives; a
        user's own cell may return the loss alone. Waits until the device has computed them.
        """
        told = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        loss, overflow, scale, lr, norm = (told + (None,) * 5)[:5]
        squares = told[5] if len(told) == 7 else None  # with ``local_norm`` the cell returns these and their sizes
        return cls(
            loss=_number(loss) if loss is not None else math.nan,
            overflow=bool(_number(overflow)) if overflow is not None else False,
            loss_scale=None if scale is None else _number(scale),
            lr=None if lr is None else _number(lr),
            grad_norm=None if norm is None else _number(norm),
            square_sums=None if squares is None else squares.asnumpy(),
        )


def _number(value: Any) -> float:
    if isinstance(value, ms.Tensor) and value.size == 1:
        return float(value.item())  # a thirtieth of the way over numpy, five times a step
    return float(np.mean(value.asnumpy() if hasattr(value, "asnumpy") else value, dtype=np.float64))
