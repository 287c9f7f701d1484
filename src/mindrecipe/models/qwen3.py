"""Qwen3 (dense): mindformers' mcore Qwen3ForCausalLM, like Llama with explicit head_dim and a norm on queries and keys."""

from __future__ import annotations

from mindrecipe.config.schema import ModelConfig
from mindrecipe.models.family import Family, completed, dims_of_attention, feed_forward_of, flops_per_token, register


def complete(model: ModelConfig) -> ModelConfig:
    """Fill the null dimensions; intermediate_size has no rule of its own in Qwen3 and falls back to 3 x hidden_size."""
    return completed(model, 3 * model.hidden_size)


def parameters(model: ModelConfig) -> int:
    """Parameters of Qwen3ForCausalLM: as Llama, plus one RMSNorm of head_dim on queries and one on keys a layer."""
    hidden = model.hidden_size
    heads, kv_heads, head_dim = dims_of_attention(model)
    layer = hidden * head_dim * (2 * heads + 2 * kv_heads) + 3 * hidden * feed_forward_of(model) + 2 * hidden + 2 * head_dim
    embeddings = model.vocab_size * hidden * (1 if model.tie_word_embeddings else 2)
    return model.num_layers * layer + embeddings + hidden


FAMILY = register(
    Family(
        name="qwen3",
        architecture="mcore",
        layout="labelled",
        columns=("input_ids", "labels", "loss_mask"),
        complete=complete,
        parameters=parameters,
        flops=flops_per_token,
        attention_patterns=(r"self_attention\.core_attention",),
        selective_patterns=(r"mlp\.mul", r"mlp\.activation_func\.silu"),
    )
)
