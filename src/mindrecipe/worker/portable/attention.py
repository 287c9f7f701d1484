"""Attention in ordinary operators, in the place and the layout of Ascend's FlashAttentionScore kernel.

Like the kernel it takes half-precision inputs (mcore's SelfAttention casts query, key and value to float16 whatever the compute
dtype) and computes scores, softmax and the weighted sum in float32.
"""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
from mindspore import nn, ops

MASKED = -10000.0
"""Added to a masked score: exp() of it is exactly 0 in float32."""


class PortableAttention(nn.Cell):
    """Stands in for mcore's FlashAttention: same constructor, same call, with grouped key/value heads.

    Raises NotImplementedError for what the kernel can do and this can not.
    """

    def __init__(
        self,
        config: Any,
        layer_number: int,
        attn_mask_type: Any = None,
        attention_type: Any = None,
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        cp_comm_type: Any = None,
    ) -> None:
        super().__init__()
        dropout = config.attention_dropout if attention_dropout is None else attention_dropout
        unsupported = {
            "attention_dropout": bool(dropout),
            "context_parallel": (config.context_parallel_size or 1) > 1,
            "use_alibi_mask": bool(config.use_alibi_mask),
            "use_ring_attention": bool(config.use_ring_attention),
            "window_size": bool(config.window_size),
            "use_attn_mask_compression": bool(config.use_attn_mask_compression or config.use_eod_attn_mask_compression),
            "input_layout TND": config.input_layout == "TND",
            "track_max_attention_logit": bool(config.track_max_attention_logit),
        }
        asked = [name for name, on in unsupported.items() if on]
        if asked:
            raise NotImplementedError(f"attention without the FlashAttentionScore kernel has no {', '.join(asked)}")
        width = config.qk_head_dim + config.qk_pos_emb_head_dim if config.multi_latent_attention else config.kv_channels
        self.scale = 1.0 / math.sqrt(width) if softmax_scale is None else softmax_scale
        self.transpose = ops.Transpose()
        self.reshape = ops.Reshape()
        self.cast = ops.Cast()
        self.softmax = ops.Softmax(-1)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.weigh = ops.BatchMatMul()

    def construct(
        self,
        query: ms.Tensor,
        key: ms.Tensor,
        value: ms.Tensor,
        attention_mask: ms.Tensor,
        attn_mask_type: Any = None,
        attention_bias: Any = None,
        packed_seq_params: Any = None,
        alibi_mask: Any = None,
        prefix: Any = None,
        padding_mask: Any = None,
        actual_seq_qlen: Any = None,
        actual_seq_kvlen: Any = None,
    ) -> ms.Tensor:
        """Query (seq, batch, heads, width), key and value (seq, batch, kv_heads, width), mask (batch or 1, 1, seq, seq), 1 where
        masked -> (seq, batch, heads * value width) in the query's type."""
        length, batch, heads, width = query.shape
        kv_length, _, kv_heads, value_width = value.shape
        group = heads // kv_heads
        q = self.transpose(self.cast(query, ms.float32), (1, 2, 0, 3))
        k = self.transpose(self.cast(key, ms.float32), (1, 2, 0, 3))
        v = self.transpose(self.cast(value, ms.float32), (1, 2, 0, 3))
        # The query heads of a group are rows of one multiplication with their common key head: BatchMatMul does not broadcast on CPU.
        q = self.reshape(q, (batch, kv_heads, group * length, width))
        scores = self.reshape(self.scores(q, k) * self.scale, (batch, kv_heads, group, length, kv_length))
        mask = self.reshape(self.cast(attention_mask, ms.float32), (-1, 1, 1, length, kv_length))
        weights = self.softmax(scores + mask * MASKED)
        mixed = self.weigh(self.reshape(weights, (batch, kv_heads, group * length, kv_length)), v)
        mixed = self.reshape(mixed, (batch, heads, length, value_width))
        mixed = self.reshape(self.transpose(mixed, (2, 0, 1, 3)), (length, batch, heads * value_width))
        return self.cast(mixed, query.dtype)

    def shard(self, config: Any) -> None:
        """No sharding: these parts run on CPU, which has data parallelism only."""
