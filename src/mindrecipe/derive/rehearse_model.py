"""The model of a rehearsal: what makes a model what it is stays, what makes it large shrinks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mindrecipe.config.schema import ModelConfig, ParallelConfig

HEAD_DIM = 16
VOCABULARY = 1024
SEQUENCE = 128
LAYERS_A_CHUNK = 1
#: keys of models' own that make them large (mixtures of experts, latent attention), and what they are at the most
EXTRA = {
    "num_experts": 8,
    "n_routed_experts": 8,
    "expert_num": 8,
    "moe_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 64,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": HEAD_DIM,
    "qk_rope_head_dim": HEAD_DIM,
    "v_head_dim": HEAD_DIM,
}


def shrunk(given: ModelConfig, parallel: ParallelConfig) -> ModelConfig:
    """The ratio of query to key/value heads stays, and heads that the tensor-parallel devices share evenly."""
    kv_heads = given.num_kv_heads or given.num_heads
    ratio = max(1, given.num_heads // kv_heads)
    kv = max(1, min(kv_heads, parallel.model_parallel * parallel.context_parallel))
    heads = kv * min(ratio, 8) if ratio > 1 else max(4, kv)
    hidden = heads * HEAD_DIM
    chunks = parallel.pipeline_stage * parallel.pipeline_interleave
    layers = max(_uneven(given.offset, parallel.pipeline_interleave) + chunks * LAYERS_A_CHUNK, min(given.num_layers, 2))
    vocabulary = min(given.vocab_size, VOCABULARY)
    tokens = _moved_tokens(given, vocabulary)
    return replace(
        given,
        bos_token_id=tokens.get(given.bos_token_id, given.bos_token_id),
        eos_token_id=tokens.get(given.eos_token_id, given.eos_token_id),
        pad_token_id=tokens.get(given.pad_token_id, given.pad_token_id),
        extra={key: min(value, EXTRA[key]) if key in EXTRA and isinstance(value, int) else value for key, value in given.extra.items()},
        num_layers=min(given.num_layers, layers) if given.num_layers >= chunks else given.num_layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv if given.num_kv_heads is not None else None,
        head_dim=HEAD_DIM if given.head_dim is not None else None,
        intermediate_size=None if given.intermediate_size is None else 2 * hidden,
        multiple_of=min(given.multiple_of, 32) if given.intermediate_size is None else given.multiple_of,
        vocab_size=vocabulary,
        seq_length=min(given.seq_length, SEQUENCE * parallel.seq_split_num),
        max_position_embeddings=None,
    )


def _moved_tokens(given: ModelConfig, vocabulary: int) -> dict[int, int]:
    """Special tokens beyond the small vocabulary move to its end; those that are one stay one."""
    beyond = sorted(token for token in {given.bos_token_id, given.eos_token_id, given.pad_token_id} if token >= vocabulary)
    return {token: vocabulary - 1 - place for place, token in enumerate(beyond)}


def _uneven(offset: list[Any] | int, interleave: int) -> int:
    """Layers that uneven stages have more than even ones, all together; at least what keeps the smallest stage one layer."""
    rows = offset if isinstance(offset, list) else []
    if rows and not any(isinstance(row, list) for row in rows):
        rows = [rows] * interleave  # one list counts in each chunk (plan/offsets.py)
    flat = [each for row in rows for each in (row if isinstance(row, list) else [row]) if isinstance(each, int)]
    return sum(flat) + len(flat) * max(0, -min(flat, default=0)) if flat else 0
