"""Llama: mindformers' legacy LlamaForCausalLM (RMSNorm, SwiGLU, rotary positions, grouped-query attention)."""

from __future__ import annotations

from mindrecipe.config.schema import ModelConfig
from mindrecipe.models.family import Family, completed, dims_of_attention, feed_forward_of, flops_per_token, register


def intermediate_size(model: ModelConfig) -> int:
    """Width of the feed-forward layer, as mindformers/models/llama/llama_layer.py (LlamaFeedForward) derives it."""
    width = 4 * model.hidden_size
    if model.ffn_dim_multiplier is not None:
        width = int((model.ffn_dim_multiplier + 0.01) * width)
    width = int(2 * width / 3)
    return model.multiple_of * ((width + model.multiple_of - 1) // model.multiple_of)


def complete(model: ModelConfig) -> ModelConfig:
    """Fill the null dimensions."""
    return completed(model, intermediate_size(model))


def parameters(model: ModelConfig) -> int:
    """Parameters of LlamaForCausalLM: embedding, layers (attention, three feed-forward matrices, two norms), norm, output layer."""
    hidden = model.hidden_size
    heads, kv_heads, head_dim = dims_of_attention(model)
    layer = hidden * head_dim * (2 * heads + 2 * kv_heads) + 3 * hidden * feed_forward_of(model) + 2 * hidden
    embeddings = model.vocab_size * hidden * (1 if model.tie_word_embeddings else 2)
    return model.num_layers * layer + embeddings + hidden


FAMILY = register(
    Family(
        name="llama",
        architecture="legacy",
        layout="shifted",
        columns=("input_ids",),
        complete=complete,
        parameters=parameters,
        flops=flops_per_token,
        # without flash attention mindformers itself recomputes scores and softmax as soon as anything is selected, and fails where
        # a pattern names one of them again (llama_transformer.py:405): then the pattern is a transposition behind them
        attention_patterns=(r"attention\.(flash_attention|merger_head_transpose)",),
        selective_patterns=(r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"),
    )
)
