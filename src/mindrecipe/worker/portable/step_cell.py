"""mindformers' training step with an overflow check that runs on every device.

The stock cell asks a status register of the NPU (``NPUGetFloatStatusV2``), which no other device has. Here the gradients
themselves are looked at. Loss scaling, clipping, the order of the two and the skipped update stay mindformers'.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindformers.wrapper.wrapper import MFTrainOneStepCell
from mindspore import ops
from mindspore.ops import composite

_all_finite = composite.MultitypeFuncGraph("all_finite")


@_all_finite.register("Tensor")
def _all_finite_tensor(gradient: ms.Tensor) -> ms.Tensor:
    return ops.ReduceAll(False)(ops.IsFinite()(gradient)).astype(ms.float32)


@MindFormerRegister.register(MindFormerModuleType.WRAPPER)
class PortableTrainOneStepCell(MFTrainOneStepCell):
    """MFTrainOneStepCell whose overflow check reads the gradients; same arguments, inputs and outputs."""

    def start_overflow_check(self, pre_cond: ms.Tensor, compute_input: Any) -> tuple[ms.Tensor, Any]:
        """Nothing to clear: there is no status register."""
        return ms.Tensor([0], ms.int32), compute_input

    def get_overflow_status(self, status: ms.Tensor, compute_output: tuple[ms.Tensor, ...]) -> ms.Tensor:
        """True where any gradient holds an infinity or a NaN.

        ``compute_output`` are the unscaled fp32 gradients *after* their reduction over ranks. A sum keeps infinities and NaNs of
        any summand, so in data parallel every rank sees any rank's overflow, and all of them skip the same step.
        """
        finite = self.hyper_map(ops.partial(_all_finite), compute_output)
        return ops.AddN()(finite) < len(finite)


PORTABLE = {"MFTrainOneStepCell": PortableTrainOneStepCell.__name__}
"""Step cells of mindformers that CPU can not run, and what replaces them."""
