"""The places where mindformers' mcore models (Qwen3 dense) use kernels that only Ascend has, filled with portable parts.

Replaced by name in the modules that build the network, before it is built: FusedRMSNorm, FlashAttention, the rotary
embedding's outer product, and the embedding lookup, whose gradient (EmbeddingDenseBackward) CPU lacks.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindformers.parallel_core.training_graph.base_models.common.embeddings import language_model_embedding, rotary_pos_embedding
from mindformers.parallel_core.training_graph.base_models.gpt import gpt_layer_specs
from mindformers.parallel_core.training_graph.tensor_parallel.layers import VocabParallelEmbedding
from mindformers.parallel_core.training_graph.transformer import norm
from mindspore import nn, ops

from mindrecipe.worker.portable.attention import PortableAttention
from mindrecipe.worker.portable.norm import PortableRMSNorm


class PortableOuter(nn.Cell):
    """Outer product of two vectors, (m,) and (n,) -> (m, n)."""

    def __init__(self) -> None:
        super().__init__()
        self.reshape = ops.Reshape()

    def construct(self, a: ms.Tensor, b: ms.Tensor) -> ms.Tensor:
        return self.reshape(a, (-1, 1)) * self.reshape(b, (1, -1))

    def shard(self, strategy: Any) -> None:
        """No sharding on CPU."""


class PortableVocabEmbedding(VocabParallelEmbedding):
    """Rows of the embedding by token id, (batch, seq) -> (batch, seq, hidden); same parameter as mcore's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gather = ops.Gather()

    def construct(self, input_: ms.Tensor) -> ms.Tensor:
        return self.gather(self.weight, input_, 0)


def install() -> None:
    """Let mcore networks that are built from now on train on CPU."""
    norm.FusedRMSNorm = PortableRMSNorm
    gpt_layer_specs.FlashAttention = PortableAttention
    rotary_pos_embedding.Outer = PortableOuter
    language_model_embedding.VocabParallelEmbedding = PortableVocabEmbedding
