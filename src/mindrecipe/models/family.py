"""What a model family is, for everything outside mindformers: its architecture, sizes and cost.

A family knows which mindformers class it becomes, how dimensions that were left null follow from the others, how many
parameters that class builds (exactly), and what a token costs. Adding a family is one module that calls :func:`register`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mindrecipe.config.schema import ModelConfig

Architecture = Literal["legacy", "mcore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of decoder-only models.

    ``architecture``: mindformers' legacy models or its mcore ones: they differ in config keys, data columns and checkpoints.
    ``layout``: how rows of text are cut for it (see data/spec.py). ``columns``: what its training network reads.
    ``complete`` fills null dimensions; ``parameters`` counts what mindformers builds from completed dimensions.
    ``flops`` of a token, forward and backward; None where they are not known.
    ``attention_patterns``/``selective_patterns``: operators that recompute=attention and recompute=selective name.
    """

    name: str
    architecture: Architecture
    layout: str
    columns: tuple[str, ...]
    complete: Callable[[ModelConfig], ModelConfig]
    parameters: Callable[[ModelConfig], int]
    flops: Callable[[ModelConfig], float | None]
    attention_patterns: tuple[str, ...]
    selective_patterns: tuple[str, ...]
    repeats_kv_heads: bool = False


_families: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Make a family known under its name."""
    _families[family.name] = family
    return family


def family_of(model: ModelConfig) -> Family:
    """The family of ``model``; KeyError where it has none (rules report that first)."""
    from mindrecipe.models import custom, llama, qwen3  # noqa: F401 - the modules register themselves

    if model.family == "custom":
        return custom.MCORE if model.architecture == "mcore" else custom.LEGACY
    return _families[model.family or ""]


def matmul_parameters(model: ModelConfig) -> int:
    """Parameters that take part in matrix multiplications for each token: layers and output layer, no embedding lookup, no norms.

    ``model`` has its null dimensions filled.
    """
    heads, kv_heads, head_dim = dims_of_attention(model)
    attention = model.hidden_size * head_dim * (2 * heads + 2 * kv_heads)
    feed_forward = 3 * model.hidden_size * feed_forward_of(model)
    return model.num_layers * (attention + feed_forward) + model.hidden_size * model.vocab_size


def flops_per_token(model: ModelConfig) -> float:
    """Model FLOPs of one token, forward and backward, without recomputation: 6 per matmul parameter plus attention.

    Attention is 12 x layers x heads x head_dim x seq_length, the causal mask not deducted
    (PaLM, arXiv 2204.02311, appendix B): the convention under which MFU figures are published.
    """
    heads, _, head_dim = dims_of_attention(model)
    return 6.0 * matmul_parameters(model) + 12.0 * model.num_layers * heads * head_dim * model.seq_length


def recomputed_flops(model: ModelConfig, policy: str, layers: Sequence[Any] | None) -> float | None:
    """FLOPs that a device does for each model FLOP, recomputation included: what turns MFU into HFU.

    A forward pass is a third of the whole. ``full`` and ``per_stage`` (``layers`` a stage) compute those of the layers again, ``attention``
    scores and weighted sum; of ``selective`` it depends on the patterns: None.
    """
    heads, _, head_dim = dims_of_attention(model)
    whole = flops_per_token(model)
    output = 6.0 * model.hidden_size * model.vocab_size
    if policy == "none":
        return 1.0
    if policy == "attention":
        return 1.0 + 4.0 * model.num_layers * heads * head_dim * model.seq_length / whole
    if policy == "full":
        return 1.0 + (whole - output) / 3.0 / whole
    if policy == "per_stage" and layers is not None and all(isinstance(count, int) for count in layers):
        return 1.0 + (whole - output) / 3.0 / whole * min(1.0, float(sum(layers)) / model.num_layers)
    return None


def dims_of_attention(model: ModelConfig) -> tuple[int, int, int]:
    """(query heads, key/value heads, head_dim), nulls filled by the rule all families share."""
    return model.num_heads, model.num_kv_heads or model.num_heads, model.head_dim or max(1, model.hidden_size // model.num_heads)


def completed(model: ModelConfig, intermediate_size: int) -> ModelConfig:
    """``model`` with its null dimensions filled by the rules all families share; ``intermediate_size`` is the family's own, where null."""
    _, kv_heads, head_dim = dims_of_attention(model)
    return replace(
        model,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=model.intermediate_size or intermediate_size,
        max_position_embeddings=model.max_position_embeddings or model.seq_length,
    )


def feed_forward_of(model: ModelConfig) -> int:
    """Width of the feed-forward layer of a completed model."""
    if model.intermediate_size is None:
        raise ValueError("feed_forward_of needs a completed model: intermediate_size is null")
    return model.intermediate_size
