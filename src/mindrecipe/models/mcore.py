"""What keys of mindformers' mcore models add to a decoder: latent attention, experts, dense layers before them, norms of heads.

Read from what the installed version builds: parallel_core/training_graph/transformer/multi_latent_attention.py, moe/router.py, moe/ffn.py,
moe/shared_experts.py and base_models/gpt/gpt_layer_specs.py. Where a number is left to a default of mindformers, it is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema import ModelConfig
from mindrecipe.models.family import dims_of_attention, feed_forward_of

#: keys of a model_config that number the experts of a layer, and those that a token visits
#: (parallel_core/transformer_config_utils.py)
EXPERTS = ("num_experts", "n_routed_experts", "num_moe_experts", "expert_num")
VISITED = ("num_experts_per_tok", "moe_router_topk", "num_experts_chosen")
_WIDTH = ("moe_intermediate_size", "moe_ffn_hidden_size")
_PREDICTED = ("num_nextn_predict_layers", "mtp_num_layers")
_SHARED = ("n_shared_experts", "shared_expert_num")
_SHARED_WIDTH = ("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size")
#: models whose configuration classes have these parts by default: what leaves them out is not known here
_BY_DEFAULT = ("deepseek_v3", "deepseek_mtp", "telechat3_moe", "telechat3_mtp")
_DEFAULTS = (
    "kv_lora_rank",
    "n_routed_experts",
    "n_shared_experts",
    "moe_intermediate_size",
    "first_k_dense_replace",
    "num_nextn_predict_layers",
)
#: models whose queries and keys have norms whatever qk_layernorm says (modeling_qwen3*_train.py)
_NORMED = ("qwen3", "qwen3_moe")
#: models whose layers are alike (get_gpt_layer_local_spec of all of them): no dense layers before those with experts
_ALIKE = ("qwen3", "qwen3_moe")


class NotCounted(ValueError):
    """A part of a model that is not counted; the message names it and the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Latent attention: ranks of queries (0: they are not compressed) and of keys with values; widths of a head.

    ``content`` and ``position`` (rotary) make up the head of queries and keys, ``value`` is that of values. ``concatenated``: one matrix
    compresses queries and keys (MLASelfAttentionConcatenated): where queries have no rank, it lies whole on each rank.
    """

    query_rank: int
    key_rank: int
    content: int
    position: int
    value: int
    concatenated: bool

    @property
    def head(self) -> int:
        return self.content + self.position

    def whole(self, hidden: int, heads: int) -> int:
        """Parameters that tensor parallelism does not split: what compresses (SequenceParallelLinear)."""
        queries = self.query_rank or (heads * self.head if self.concatenated else 0)
        return hidden * (queries + self.key_rank + self.position)

    def split(self, hidden: int, heads: int) -> int:
        """Parameters that it splits: what expands again, and the output."""
        queries = heads * self.head * (self.query_rank or (0 if self.concatenated else hidden))
        return queries + self.key_rank * heads * (self.content + self.value) + heads * self.value * hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Of one model. ``experts``: of each layer but the first ``dense_layers``; ``norms``: vectors' elements a layer beside two norms.

    ``predicted``: further tokens that are predicted, each by a layer like the last and a matrix that joins the next embedding to it.
    """

    latent: Latent | None = None
    experts: int = 0
    visited: int = 0
    expert_width: int = 0
    shared_width: int = 0
    shared_gate: bool = False
    dense_layers: int = 0
    norms: int = 0
    predicted: int = 0


def parts_of(model: ModelConfig) -> Parts:
    """The parts of a completed custom mcore model; NotCounted for what is not."""
    extra, kind = model.extra, str(model.extra.get("model_type", ""))
    untold = next((key for key in _DEFAULTS if kind in _BY_DEFAULT and key not in extra), None)
    if untold:
        raise NotCounted(f"model.extra.{untold} is not told, and mindformers has a default of its own for {kind}")
    for key in ("add_bias_linear", "add_qkv_bias", "attention_bias", "qkv_has_bias"):
        if extra.get(key):
            raise NotCounted(f"model.extra.{key}=true: biases are not counted")
    if extra.get("experimental_attention_variant"):
        raise NotCounted(
            f"model.extra.experimental_attention_variant={extra['experimental_attention_variant']}: sparse attention is not counted"
        )
    latent = _latent(extra)
    normed = kind in _NORMED or bool(extra.get("qk_layernorm") or extra.get("use_qk_norm"))
    head_dim = dims_of_attention(model)[2]
    norms = (latent.query_rank + latent.key_rank if latent else 2 * head_dim) if normed else 0
    experts = _first(extra, EXPERTS)
    predicted = _first(extra, _PREDICTED)
    if not experts:
        return Parts(latent=latent, norms=norms, predicted=predicted)
    width = _first(extra, _WIDTH) or feed_forward_of(model)
    shared = _first(extra, _SHARED_WIDTH) or width * _first(extra, _SHARED)
    return Parts(
        latent=latent,
        experts=experts,
        visited=_first(extra, VISITED) or min(2, experts),
        expert_width=width,
        shared_width=shared,
        shared_gate=bool(shared and extra.get("use_shared_expert_gating")),
        dense_layers=0 if kind in _ALIKE else _dense(extra, model.num_layers),
        norms=norms,
        predicted=predicted,
    )


def parameters(model: ModelConfig) -> int:
    """Trained parameters of a completed custom mcore model, as mindformers builds it; NotCounted for parts that are not."""
    parts, hidden = parts_of(model), model.hidden_size
    heads, kv_heads, head_dim = dims_of_attention(model)
    latent = parts.latent
    attention = latent.whole(hidden, heads) + latent.split(hidden, heads) if latent else hidden * head_dim * (2 * heads + 2 * kv_heads)
    around = attention + parts.norms + 2 * hidden
    dense = around + 3 * hidden * feed_forward_of(model)
    moe = around + hidden * (3 * (parts.experts * parts.expert_width + parts.shared_width) + parts.experts + parts.shared_gate)
    with_experts = max(0, model.num_layers - parts.dense_layers) if parts.experts else 0
    layers = (model.num_layers - with_experts) * dense + with_experts * moe
    # embedding and output layer are those of the model; three norms (MultiTokenPredictionLayer)
    layers += parts.predicted * ((moe if with_experts else dense) + 2 * hidden * hidden + 3 * hidden)
    return layers + hidden + model.vocab_size * hidden * (1 if model.tie_word_embeddings else 2)


def _latent(extra: dict[str, Any]) -> Latent | None:
    key_rank = _count(extra, "kv_lora_rank")
    if not key_rank or extra.get("multi_latent_attention") is False:
        return None
    told = {key: _count(extra, key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    missing = next((key for key, value in told.items() if not value), None)
    if missing or "q_lora_rank" not in extra:
        raise NotCounted(f"model.extra.{missing or 'q_lora_rank'} is not told: latent attention is not counted without it")
    return Latent(
        query_rank=_count(extra, "q_lora_rank"),
        key_rank=key_rank,
        content=told["qk_nope_head_dim"],
        position=told["qk_rope_head_dim"],
        value=told["v_head_dim"],
        concatenated=bool(extra.get("mla_qkv_concat", True)),
    )


def _dense(extra: dict[str, Any], layers: int) -> int:
    dense = _count(extra, "first_k_dense_replace")
    if not dense and extra.get("moe_layer_freq", 1) not in (1, None):
        raise NotCounted(f"model.extra.moe_layer_freq={extra['moe_layer_freq']}: dense layers between those with experts are not counted")
    return min(dense, layers)


def _first(extra: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((_count(extra, key) for key in keys if _count(extra, key)), 0)


def _count(extra: dict[str, Any], key: str) -> int:
    value = extra.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
