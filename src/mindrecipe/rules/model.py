"""Rules of the model's own dimensions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mindrecipe.config.keys import nearest_word
from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.models.custom import DIMENSIONS
from mindrecipe.rules.registry import LARGE, STAGES, TINY, Problem, rule

#: a model of a class that we do not know
CUSTOM = "model=custom run.name=mine parallel=semi_auto"


@rule(
    "model.heads",
    "error",
    "the width of a head must be a whole number",
    outcome="stops",
    source=(
        "mindformers models/llama/llama_transformer.py LLamaAttention; parallel_core/training_graph/transformer/attention.py; "
        "run: compilation ends in a Reshape (odd heads) or a BatchMatMul that does not broadcast (key/value heads)"
    ),
    reads="model: head_dim hidden_size num_heads num_kv_heads",
    fails=[f"{TINY} model.hidden_size=130", f"{TINY} model.head_dim=16", f"{TINY} model.hidden_size=132", f"{TINY} model.num_kv_heads=3"],
    passes=[f"{TINY} model.hidden_size=136", f"{TINY} model.head_dim=null", f"{TINY} model.num_kv_heads=2"],
)
def heads(d: Derived) -> Iterator[Problem]:
    """The width is no whole number of heads, a head is odd, or query heads are no multiple of key/value heads."""
    m = d.config.model
    if m.hidden_size % m.num_heads and not d.family.name.startswith("custom"):
        yield Problem(
            f"model.hidden_size={m.hidden_size} is not a multiple of num_heads={m.num_heads}",
            ("model.num_heads", "model.hidden_size"),
            f"model.hidden_size={-(-m.hidden_size // (2 * m.num_heads)) * 2 * m.num_heads}",
        )
    elif d.family.architecture == "legacy" and m.head_dim != m.hidden_size // m.num_heads:
        yield Problem(
            f"model.head_dim={m.head_dim} has no effect: "
            f"mindformers' Llama computes hidden_size / num_heads = {m.hidden_size // m.num_heads}",
            ("model.head_dim",),
            "model.head_dim=null",
        )
    elif m.head_dim is not None and m.head_dim % 2:
        by_hidden = m.head_dim == m.hidden_size // m.num_heads
        yield Problem(
            f"model.head_dim={m.head_dim} is odd{' (hidden_size / num_heads)' if by_hidden else ''}: rotary positions turn pairs",
            ("model.head_dim", "model.num_heads", "model.hidden_size"),
            f"model.hidden_size={m.num_heads * (m.head_dim + 1)}" if by_hidden else f"model.head_dim={m.head_dim + 1}",
        )
    if m.num_kv_heads and m.num_heads % m.num_kv_heads:
        yield Problem(
            f"model.num_heads={m.num_heads} is not a multiple of num_kv_heads={m.num_kv_heads}",
            ("model.num_kv_heads", "model.num_heads"),
            f"model.num_kv_heads={max(k for k in range(1, m.num_kv_heads + 1) if m.num_heads % k == 0)}",
        )


@rule(
    "model.keys",
    "error",
    "only dimensions and dtypes of ours can be written under another name",
    outcome="stops",
    source="lower/custom.py",
    reads="model: family keys",
    fails=[f"{CUSTOM} 'model.keys={{num_layer: n_layer}}'", f"{LARGE} 'model.keys={{num_layers: n_layer}}'"],
    passes=[f"{CUSTOM} 'model.keys={{num_layers: n_layer}}'"],
)
def custom_keys(d: Derived) -> Iterator[Problem]:
    """A dimension is named that we have not."""
    m = d.config.model
    for ours in m.keys:
        if ours not in DIMENSIONS:
            near = nearest_word(str(ours), DIMENSIONS, 1)
            right = {near[0] if name == ours and near else name: theirs for name, theirs in m.keys.items() if near or name != ours}
            written = ", ".join(f"{name}: {theirs}" for name, theirs in right.items())
            yield Problem(f"model.keys.{ours} is no dimension", ("model.keys",), shlex.quote(f"model.keys={{{written}}}"))
    if m.keys and m.family != "custom":
        yield Problem(f"model.keys has no effect with model.family={m.family}", ("model.keys",), "model.family=custom")


@rule(
    "model.token_ids",
    "error",
    "an id beyond the embedding reads memory that is not there",
    outcome="stops",
    source="run: input_indices should be in the range [0, 32), but got 35",
    reads="model: bos_token_id eos_token_id pad_token_id vocab_size",
    fails=[f"{TINY} model.eos_token_id=1024"],
    passes=[f"{TINY} model.eos_token_id=1023"],
)
def token_ids(d: Derived) -> Iterator[Problem]:
    """A special token's id is not below the vocabulary's size."""
    m = d.config.model
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if getattr(m, key) >= m.vocab_size:
            yield Problem(
                f"model.{key}={getattr(m, key)} is not below vocab_size={m.vocab_size}",
                (f"model.{key}", "model.vocab_size"),
                f"model.{key}={m.vocab_size - 1}",
            )


@rule(
    "model.positions",
    "error",
    "positions beyond the rotary table can't be computed",
    outcome="stops",
    source="mindformers models/llama/llama_layer.py FreqsMgr",
    reads="model: max_position_embeddings seq_length",
    fails=[f"{TINY} model.max_position_embeddings=64"],
    passes=[f"{TINY} model.max_position_embeddings=128"],
)
def positions(d: Derived) -> Iterator[Problem]:
    """Sequences are longer than the rotary table."""
    m = d.config.model
    if m.max_position_embeddings and m.max_position_embeddings < m.seq_length:
        yield Problem(
            f"model.seq_length={m.seq_length} is longer than max_position_embeddings={m.max_position_embeddings}",
            ("model.seq_length", "model.max_position_embeddings"),
            f"model.max_position_embeddings={m.seq_length}",
        )


@rule(
    "model.tied_stages",
    "error",
    "the embedding and the output layer live on different stages",
    outcome="stops",
    source="mindformers models/llama/llama.py LlamaForCausalLM",
    reads="model: tie_word_embeddings; parallel: mode pipeline_stage",
    fails=[f"{STAGES} model.tie_word_embeddings=true"],
    passes=[f"{STAGES} model.tie_word_embeddings=false"],
)
def tied_stages(d: Derived) -> Iterator[Problem]:
    """Embedding and output layer share weights across stages."""
    p = d.config.parallel
    if d.config.model.tie_word_embeddings and p.mode in SHARDED and p.pipeline_stage > 1:
        yield Problem(
            f"model.tie_word_embeddings=true with pipeline_stage={p.pipeline_stage}",
            ("model.tie_word_embeddings", "parallel.pipeline_stage"),
            "model.tie_word_embeddings=false",
        )
