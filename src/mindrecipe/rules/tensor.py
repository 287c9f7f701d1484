"""Rules of what is split inside a layer: heads, vocabulary, sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.mesh import divisor_near, is_refused
from mindrecipe.rules.registry import LARGE, QWEN, STAGES, Problem, rule

#: a legacy model that repeats its key/value heads where there are fewer than devices
GLM = "model=custom run.name=mine parallel=semi_auto model.use_flash_attention=true"


@rule(
    "mesh.heads",
    "error",
    "each device takes whole heads",
    outcome="stops",
    source="mindformers models/llama/llama_transformer.py LLamaAttention; parallel_core/training_graph/transformer/attention.py (run)",
    reads="model: num_heads num_kv_heads; parallel: context_parallel data_parallel mode model_parallel pipeline_stage",
    fails=[
        f"{LARGE} model.num_heads=2 parallel.model_parallel=8",
        f"{LARGE} model.num_kv_heads=8 parallel.model_parallel=16 launch.nodes=2 launch.master_addr=10.0.0.1",
        f"{QWEN} model.num_kv_heads=2 parallel.model_parallel=4",
    ],
    passes=[
        f"{LARGE} model.num_heads=32 model.num_kv_heads=8 parallel.model_parallel=8",
        f"{LARGE} model.num_heads=2 parallel.model_parallel=2",
        f"{LARGE} model.num_kv_heads=8 launch.nodes=2 launch.master_addr=10.0.0.1 parallel.model_parallel=8",
    ],
)
def heads(d: Derived) -> Iterator[Problem]:
    """Heads, or key/value heads, are not divided by those that share them."""
    p, m = d.config.parallel, d.config.model
    if p.mode not in SHARDED or is_refused(d):
        return
    mcore = d.family.architecture == "mcore"
    ulysses, name = _ulysses(d)
    ways = p.model_parallel * ulysses
    kv_heads = m.num_kv_heads or m.num_heads
    # of the sizes that divide the heads, the nearest that divides what the other axes leave of the devices
    whole = math.gcd(m.num_heads, kv_heads, max(1, d.device_num // (p.context_parallel * p.pipeline_stage)))
    mend = f"parallel.model_parallel={divisor_near(whole, p.model_parallel)}"
    if ways != p.model_parallel:
        mend = f"{mend} parallel.context_parallel_algo=colossalai_cp parallel.ulysses_degree_in_cp=1"
    if m.num_heads % ways:
        yield Problem(
            f"model.num_heads={m.num_heads} is not a multiple of {name}={ways}", ("parallel.model_parallel", "model.num_heads"), mend
        )
    # mcore models repeat them over what shares a sequence, not over what shares a matrix
    if kv_heads != m.num_heads and kv_heads % ways and not d.family.repeats_kv_heads and not (mcore and kv_heads % p.model_parallel == 0):
        yield Problem(
            f"model.num_kv_heads={kv_heads} is not a multiple of {name}={ways}", ("parallel.model_parallel", "model.num_kv_heads"), mend
        )


def _ulysses(d: Derived) -> tuple[int, str]:
    """Devices that exchange a sequence's heads (mindformers op_parallel_config.py get_ulysses_cp_num), and what the product is called."""
    p = d.config.parallel
    mcore = d.family.architecture == "mcore"  # goes by the degree alone
    if p.context_parallel == 1 or (p.context_parallel_algo == "colossalai_cp" and not mcore):
        return 1, "model_parallel"
    if p.context_parallel_algo == "ulysses_cp" and not mcore:
        return p.context_parallel, "model_parallel x context_parallel"
    return p.ulysses_degree_in_cp, "model_parallel x ulysses_degree_in_cp"


@rule(
    "mesh.widths",
    "error",
    "each device takes as many columns of the feed-forward layer: mindformers refuses a rest when the model is built",
    outcome="stops",
    source="mindformers models/llama/llama_layer.py LlamaFeedForward.shard; mindspore: a shard strategy must divide its dimension",
    reads="model: hidden_size intermediate_size; parallel: context_parallel data_parallel mode model_parallel pipeline_stage",
    fails=[
        f"{LARGE} model.intermediate_size=11009 parallel.model_parallel=2",
        f"{QWEN} model.intermediate_size=12289 parallel.model_parallel=4",
    ],
    passes=[f"{LARGE} parallel.model_parallel=8", f"{LARGE} model.intermediate_size=11009"],
)
def widths(d: Derived) -> Iterator[Problem]:
    """The width of the feed-forward layer, or of the residual stream, is no multiple of model_parallel."""
    p, m = d.config.parallel, d.config.model
    if p.mode not in SHARDED or is_refused(d) or d.family.name.startswith("custom"):
        return
    for key in ("intermediate_size", "hidden_size"):
        width = getattr(m, key) or 0
        if width % p.model_parallel:
            yield Problem(
                f"model.{key}={width} is not a multiple of model_parallel={p.model_parallel}",
                (f"model.{key}", "parallel.model_parallel"),
                f"model.{key}={math.ceil(width / p.model_parallel) * p.model_parallel}",
            )


@rule(
    "mesh.vocabulary",
    "error",
    "the embedding that vocab_emb_dp=false asks to split by rows would stay whole, with one warning in the log",
    outcome="ignored",
    source="mindformers models/llama/llama_layer.py LlamaEmbedding.shard",
    reads="model: vocab_size; parallel: context_parallel mode model_parallel pipeline_stage vocab_emb_dp",
    fails=[f"{LARGE} model.vocab_size=49154 parallel.context_parallel=4 parallel.vocab_emb_dp=false"],
    passes=[f"{LARGE} parallel.context_parallel=4 parallel.vocab_emb_dp=false model.vocab_size=49156"],
)
def vocabulary(d: Derived) -> Iterator[Problem]:
    """The embedding is to be split by rows that do not divide."""
    p, vocab = d.config.parallel, d.config.model.vocab_size
    ways = p.model_parallel * p.context_parallel
    legacy = d.family.architecture == "legacy"
    if p.mode in SHARDED and vocab % ways and p.vocab_emb_dp is False and p.pipeline_stage == 1 and legacy:
        yield Problem(
            f"model.vocab_size={vocab} is not a multiple of model_parallel x context_parallel = {ways}",
            ("parallel.vocab_emb_dp", "model.vocab_size", "parallel.model_parallel"),
            f"model.vocab_size={math.ceil(vocab / ways) * ways}, or parallel.vocab_emb_dp=true",
        )


@rule(
    "mesh.head_unsplit",
    "warning",
    "mindformers leaves the output layer unsplit then: each device holds all of it",
    outcome="costs",
    source="mindformers models/llama/llama.py LlamaForCausalLM; the same mistake: Megatron-LM issue 1754",
    reads="model: vocab_size; parallel: context_parallel data_parallel mode model_parallel pipeline_stage vocab_emb_dp",
    fails=[
        f"{QWEN} model.vocab_size=151937 parallel.model_parallel=2",
        f"{LARGE} model.vocab_size=50257 parallel.model_parallel=8 parallel.vocab_emb_dp=true",
        f"{STAGES} model.vocab_size=50257 parallel.model_parallel=2",
    ],
    passes=[
        f"{QWEN} parallel.model_parallel=2 model.vocab_size=151938",
        f"{LARGE} parallel.model_parallel=8 parallel.vocab_emb_dp=true model.vocab_size=50264",
        f"{STAGES} parallel.model_parallel=2 model.vocab_size=50258",
    ],
)
def head_unsplit(d: Derived) -> Iterator[Problem]:
    """The vocabulary is no multiple of model_parallel."""
    p, vocab = d.config.parallel, d.config.model.vocab_size
    whole = p.vocab_emb_dp or p.pipeline_stage > 1 or d.family.architecture == "mcore"
    if p.mode in SHARDED and not is_refused(d) and vocab % p.model_parallel and whole:
        padded = math.ceil(vocab / p.model_parallel) * p.model_parallel
        yield Problem(
            f"model.vocab_size={vocab} is not a multiple of model_parallel={p.model_parallel}",
            ("model.vocab_size", "parallel.model_parallel"),
            f"model.vocab_size={padded}",
        )


@rule(
    "mesh.sequence_parallel",
    "error",
    "there is nothing to split over",
    outcome="stops",
    source="mindformers parallel_core/training_graph/transformer/utils.py; mindspore: a shard strategy must divide its dimension",
    reads="model: seq_length; parallel: context_parallel mode model_parallel use_seq_parallel",
    fails=[f"{LARGE} parallel.use_seq_parallel=true parallel.model_parallel=8 model.seq_length=4097"],
    passes=[f"{LARGE} parallel.model_parallel=8 model.seq_length=4097 parallel.use_seq_parallel=false"],
)
def sequence_parallel(d: Derived) -> Iterator[Problem]:
    """The sequence is not divided by those that share it."""
    p, m = d.config.parallel, d.config.model
    if p.mode in SHARDED and p.use_seq_parallel and m.seq_length % (p.model_parallel * p.context_parallel):
        yield Problem(
            f"model.seq_length={m.seq_length} is not a multiple of "
            f"model_parallel x context_parallel = {p.model_parallel * p.context_parallel}",
            ("parallel.use_seq_parallel", "model.seq_length"),
            "parallel.use_seq_parallel=false",
        )


@rule(
    "mesh.context_parallel",
    "error",
    "mindformers implements context parallelism inside flash attention",
    outcome="stops",
    source="mindformers tools/check_rules.py _check_parallel and _check_context_parallel_algo_valid",
    reads=(
        "model: num_kv_heads seq_length use_flash_attention; parallel: context_parallel context_parallel_algo mode "
        "model_parallel ulysses_degree_in_cp"
    ),
    fails=[
        f"{LARGE} parallel.context_parallel=2 model.use_flash_attention=false",
        f"{LARGE} parallel.context_parallel=2 model.seq_length=4097",
        f"{GLM} model.num_kv_heads=2 parallel.context_parallel=4 parallel.context_parallel_algo=ulysses_cp",
        f"{LARGE} parallel.context_parallel=8 parallel.context_parallel_algo=hybrid_cp parallel.ulysses_degree_in_cp=16",
    ],
    passes=[
        f"{LARGE} parallel.context_parallel=2 parallel.context_parallel_algo=ulysses_cp",
        f"{LARGE} parallel.context_parallel=2 model.use_flash_attention=true",
        f"{LARGE} parallel.context_parallel=2 model.seq_length=4098",
    ],
)
def context_parallel(d: Derived) -> Iterator[Problem]:
    """Context parallelism without flash attention, over a sequence or heads it does not divide."""
    p, m = d.config.parallel, d.config.model
    if p.mode not in SHARDED or p.context_parallel == 1:
        return
    if not m.use_flash_attention:
        yield Problem(
            f"parallel.context_parallel={p.context_parallel} needs flash attention",
            ("parallel.context_parallel", "model.use_flash_attention"),
            "model.use_flash_attention=true",
        )
    if m.seq_length % p.context_parallel:
        yield Problem(
            f"model.seq_length={m.seq_length} is not a multiple of context_parallel={p.context_parallel}",
            ("model.seq_length", "parallel.context_parallel"),
            f"model.seq_length={math.ceil(m.seq_length / p.context_parallel) * p.context_parallel}",
        )
    # of legacy models that repeat no heads mesh.heads says it; of mcore ones mindformers compares the query heads
    mcore = d.family.architecture == "mcore"
    heads_ = m.num_heads if mcore else m.num_kv_heads or m.num_heads
    fewer = heads_ < p.context_parallel * p.model_parallel
    if p.context_parallel_algo == "ulysses_cp" and fewer and (mcore or d.family.repeats_kv_heads):
        yield Problem(
            f"ulysses_cp needs context_parallel x model_parallel = {p.context_parallel * p.model_parallel} <= heads = {heads_}",
            ("parallel.context_parallel_algo", "parallel.context_parallel"),
            "parallel.context_parallel_algo=colossalai_cp",
        )
    if (mcore or p.context_parallel_algo == "hybrid_cp") and p.context_parallel % p.ulysses_degree_in_cp:
        yield Problem(
            f"parallel.context_parallel={p.context_parallel} is not a multiple of ulysses_degree_in_cp={p.ulysses_degree_in_cp}",
            ("parallel.ulysses_degree_in_cp", "parallel.context_parallel"),
            f"parallel.ulysses_degree_in_cp={divisor_near(p.context_parallel, p.ulysses_degree_in_cp)}",
        )
