"""RMSNorm in ordinary operators, computed inside as Ascend's fused kernel does: in float32, whatever the input's type.

In float16 the unfused form can not be trained: the derivative of 1/sqrt(v) is -1/2 v^(-3/2), which for the small activations
behind a fresh embedding (v = 4e-4 at an initial deviation of 0.02) is 62500 and overflows on the way; every step was skipped.
"""

from __future__ import annotations

import mindspore as ms
from mindformers.models.llama.llama_layer import LlamaRMSNorm
from mindformers.parallel_core.training_graph.transformer.norm import RMSNorm


class PortableRMSNorm(RMSNorm):
    """Stands in for mcore's FusedRMSNorm: (sequence, batch, hidden) -> the same, same parameter and sharding."""

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Normalise over the last axis. The input is rounded to layernorm_compute_dtype first, as in the fused cell."""
        wide = self.cast(self.cast(x, self.compute_type), ms.float32)
        factor = self.rsqrt(self.add(self.mean(self.square(wide), -1, keepdim=True), self.eps))
        return self.cast(self.mul2(self.mul(wide, factor), self.weight), x.dtype)


def _llama_norm(self: LlamaRMSNorm, x: ms.Tensor) -> ms.Tensor:
    wide = self.cast(self.cast(x, self.compute_type), ms.float32)
    factor = self.rsqrt(self.add(self.mean(self.square(wide), -1), self.eps))
    normed = self.cast(self.mul(wide, factor), self.compute_type)
    return self.mul2(self.cast(normed, x.dtype), self.cast(self.weight, x.dtype))


def install_in_llama() -> None:
    """Give legacy Llama's unfused norm a float32 inside. Only needed for layernorm_compute_type float16."""
    LlamaRMSNorm._self_norm = _llama_norm
