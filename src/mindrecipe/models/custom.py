"""custom: any mindformers model that is no family of ours, known by the dimensions all decoder models share.

Its model_config is passed through; ``model.keys`` says which of its keys our dimensions are. What is counted from them is exact for
mcore models (mcore.py), else an estimate (norms, biases and adapters are left out), good for checks and plans; 0 where a dimension it
needs is not known.
"""

from __future__ import annotations

from typing import Any

from mindrecipe.config.schema import ModelConfig
from mindrecipe.models import mcore
from mindrecipe.models.family import Family, completed, dims_of_attention, feed_forward_of, flops_per_token, register

#: our name -> the section it is a knob of; the names that ``model.keys`` may use
DIMENSIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "seq_length",
            "num_layers",
            "hidden_size",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "intermediate_size",
            "vocab_size",
            "max_position_embeddings",
            "multiple_of",
            "ffn_dim_multiplier",
            "rms_norm_eps",
            "rope_theta",
            "tie_word_embeddings",
            "init_std",
            "use_flash_attention",
            "fused_rms_norm",
            "bos_token_id",
            "eos_token_id",
            "pad_token_id",
            "offset",
        ),
        "model",
    ),
    **dict.fromkeys(("compute_dtype", "param_dtype", "layernorm_dtype", "softmax_dtype", "rotary_dtype"), "amp"),
    "batch_size": "dataset",
    "pipeline_interleave": "parallel",
}
_NEEDED = ("num_layers", "hidden_size", "num_heads", "vocab_size")


def complete(model: ModelConfig) -> ModelConfig:
    """Fill the null dimensions; a feed-forward width that is not told is taken as four times the hidden size (GPT-2's rule)."""
    return completed(model, 4 * model.hidden_size)


def parameters(model: ModelConfig) -> int:
    """Matrices of the layers (routed experts included, where their number is told) and the embeddings; 0: not known."""
    if any(key not in model.keys for key in _NEEDED):
        return 0
    heads, kv_heads, head_dim = dims_of_attention(model)
    attention = model.hidden_size * head_dim * (2 * heads + 2 * kv_heads)
    matrices = _matrices(model)
    experts = next((_count(model.extra.get(key)) for key in mcore.EXPERTS if key in model.extra), 0)
    width = _count(model.extra.get("moe_intermediate_size")) if experts else 0
    feed_forward = matrices * model.hidden_size * (experts * width if width else feed_forward_of(model))
    embeddings = model.vocab_size * model.hidden_size * (1 if model.tie_word_embeddings else 2)
    return model.num_layers * (attention + feed_forward) + embeddings


def mcore_parameters(model: ModelConfig) -> int:
    """The same of mindformers' mcore models, exactly; where they have parts that are not counted, the estimate."""
    if any(key not in model.keys for key in _NEEDED):
        return 0
    try:
        return mcore.parameters(model)
    except mcore.NotCounted:
        return parameters(model)


def flops(model: ModelConfig) -> float | None:
    """FLOPs of a token as :func:`mindrecipe.models.family.flops_per_token` counts them; None where a dimension is not told.

    None for experts as well: how many of them see a token is the router's own matter; and for latent attention.
    """
    if any(key not in model.keys for key in _NEEDED) or any(_count(model.extra.get(key)) > 1 for key in (*mcore.EXPERTS, "kv_lora_rank")):
        return None
    not_there = (3 - _matrices(model)) * model.num_layers * model.hidden_size * feed_forward_of(model)
    return flops_per_token(model) - 6.0 * not_there


def _matrices(model: ModelConfig) -> int:
    """Matrices of a feed-forward layer: three where it is gated."""
    return 2 if any(name in str(model.extra.get("type", "")) for name in ("GPT2", "Pangu")) else 3


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


_PATTERNS = (r"attention\.(flash_attention|merger_head_transpose)",)

LEGACY = register(
    Family(
        name="custom",
        architecture="legacy",
        layout="shifted",
        columns=("input_ids",),
        complete=complete,
        parameters=parameters,
        flops=flops,
        attention_patterns=_PATTERNS,
        selective_patterns=(r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"),
        # some do (GLM), and which is not known here
        repeats_kv_heads=True,
    )
)
MCORE = register(
    Family(
        name="custom/mcore",
        architecture="mcore",
        layout="labelled",
        columns=("input_ids", "labels", "loss_mask"),
        complete=complete,
        parameters=mcore_parameters,
        flops=flops,
        attention_patterns=(r"self_attention\.core_attention",),
        selective_patterns=(r"mlp\.mul", r"mlp\.activation_func\.silu"),
    )
)
