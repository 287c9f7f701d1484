"""The planner's parameters are the models' own, exactly: in all, and summed over ranks with replicas once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mends import quick
from mindrecipe.config.schema import ModelConfig
from mindrecipe.models.family import family_of, matmul_parameters
from mindrecipe.models.family import flops_per_token as flops_of_family
from mindrecipe.plan import flops, parameters, shares, stages
from mindrecipe.plan.job import Dimensions, Job
from mindrecipe.plan.of_run import dimensions as dimensions_of
from plan.jobs import JOB, NPU, SMALL, dimensions, jobs

MODELS = ["llama2_7b", "llama2_13b", "llama2_70b", "llama2_tiny", "qwen3_8b", "qwen3_32b", "qwen3_tiny"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("model", MODELS)
def test_of_every_model_that_is_shipped(model: str) -> None:
    derived = quick(f"+model={model}").derived
    assert parameters.model(dimensions_of(derived.config.model, derived.family)) == derived.parameters


@given(
    st.sampled_from(["llama", "qwen3"]), st.integers(1, 9), st.sampled_from([1, 2, 4]), st.sampled_from([None, 48]), st.booleans(),
    st.integers(2, 999),
)  # fmt: skip
def test_of_any_model(family: str, layers: int, kv_heads: int, head_dim: int | None, tied: bool, vocab: int) -> None:
    given = ModelConfig(
        family=family, num_layers=layers, hidden_size=128, num_heads=4, num_kv_heads=kv_heads, head_dim=head_dim, vocab_size=vocab,
        tie_word_embeddings=tied,
    )  # fmt: skip
    known = family_of(given)
    model = known.complete(given)
    dims = dimensions_of(model, known)
    assert parameters.model(dims) == known.parameters(model)
    assert parameters.active(dims) == matmul_parameters(model)
    assert flops.model_flops(dims) == flops_of_family(model)


@given(
    st.dictionaries(st.sampled_from(["num_experts", "moe_intermediate_size", "num_experts_per_tok"]), st.sampled_from([4, 8, 16])),
    st.booleans(),
)
def test_of_a_custom_model(extra: dict[str, int], tied: bool) -> None:
    keys = {name: name for name in ("num_layers", "hidden_size", "num_heads", "vocab_size")}
    given = ModelConfig(
        family="custom", keys=keys, extra=dict(extra), num_layers=3, hidden_size=64, num_heads=4, intermediate_size=96, vocab_size=50,
        tie_word_embeddings=tied,
    )  # fmt: skip
    known = family_of(given)
    model = known.complete(given)
    if "num_experts" in extra and "moe_intermediate_size" not in extra:
        return  # the family counts such a layer as dense
    assert parameters.model(dimensions_of(model, known)) == known.parameters(model)


@pytest.mark.parametrize("concatenated", [False, True])
@pytest.mark.parametrize("query_rank", [0, 48])
def test_of_a_model_with_latent_attention_and_shared_experts(query_rank: int, concatenated: bool) -> None:
    extra = {
        "kv_lora_rank": 32, "q_lora_rank": query_rank, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_layernorm": True,
        "mla_qkv_concat": concatenated, "num_experts": 8, "moe_intermediate_size": 40, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "use_shared_expert_gating": True,
    }  # fmt: skip
    given = ModelConfig(
        family="custom", architecture="mcore", keys={name: name for name in ("num_layers", "hidden_size", "num_heads", "vocab_size")},
        extra=extra, num_layers=3, hidden_size=64, num_heads=4, intermediate_size=96, vocab_size=50,
    )  # fmt: skip
    known = family_of(given)
    model = known.complete(given)
    dims = dimensions_of(model, known)
    assert parameters.model(dims) == known.parameters(model)
    # by hand: what compresses, what expands, the output; norms; a dense layer and two of eight experts, two shared ones, router and gate
    attention = 64 * 40 + 32 * 4 * 40 + 4 * 16 * 64 + (48 * (64 + 4 * 32) if query_rank else 64 * 4 * 32)
    norms = 2 * 64 + 32 + query_rank
    experts = 3 * 64 * 40 * (8 + 2) + 8 * 64 + 64
    assert parameters.model(dims) == 3 * (attention + norms) + 3 * 64 * 96 + 2 * experts + 2 * 50 * 64 + 64
    held, whole = parameters.layer(dims, True), replace(JOB.layout, tensor_parallel=2, expert_tensor=False)
    assert held.per_rank(whole) - replace(held, shared=0).per_rank(whole) == held.shared  # shared experts are whole on each rank


@given(jobs())
def test_ranks_hold_the_whole_model(job: Job) -> None:
    """Split tensors over their ranks, copies once: the sum is the model; a tied embedding is held by the last stage as well."""
    layout, held = job.layout, parameters.Parameters()
    for stage in range(layout.pipeline):
        held += parameters.of_stage(job, stage)
    twice = job.dims.vocab * job.dims.hidden if job.dims.tied and layout.pipeline > 1 else 0
    assert held.total == parameters.model(job.dims) + twice
    t, ep = layout.tensor_parallel, layout.expert_parallel
    for stage in range(layout.pipeline):
        whole = parameters.of_stage(job, stage)
        vocabulary = (whole.vocabulary + whole.table) * (1 if layout.split_vocabulary else t)
        assert whole.per_rank(layout) * t == pytest.approx(whole.split + whole.shared + whole.expert / ep + t * whole.copied + vocabulary)


def test_what_mindformers_splits_otherwise() -> None:
    """The legacy embedding over context parallelism as well; mcore's experts over expert parallelism alone, which spans tensor parallelism."""
    layout = replace(JOB.layout, tensor_parallel=2, context_parallel=2, table_over_context=True)
    assert parameters.embedding(SMALL).per_rank(layout) == 32000 * 1024 / 4
    dims = replace(SMALL, experts=8, experts_per_token=2, expert_width=512)
    layout = replace(JOB.layout, data_parallel=2, tensor_parallel=2, expert_parallel=2, expert_tensor=False, sharding="optimizer")
    experts = parameters.layer(dims, True).expert
    assert parameters.layer(dims, True).experts_per_rank(layout) == experts / 2
    assert layout.expert_shards == 2 and replace(layout, expert_parallel=4).expert_shards == 1
    assert shares.kept(replace(JOB, dims=dims, layout=layout), shares.Held(experts=experts / 2), 1) == experts / 4


@given(jobs())
def test_stages_hold_each_layer_once(job: Job) -> None:
    held = [index for stage in range(job.layout.pipeline) for index in stages.layers_of(job, stage)]
    assert sorted(held) == list(range(job.dims.layers))
    assert [sum(counts) for counts in stages.counts(job)] == [len(stages.layers_of(job, s)) for s in range(job.layout.pipeline)]


@given(dimensions())
def test_the_parts_of_a_token(dims: Dimensions) -> None:
    job = Job(dims=dims, device=NPU)
    assert 0 < parameters.active(dims) <= parameters.model(replace(dims, tied=False))
    assert flops.hardware_flops(job) == flops.model_flops(dims)


def test_rows_that_do_not_divide_stay_whole_on_each_replica() -> None:
    """MindSpore's parallel optimizer: 2816 rows over 512 replicas do not divide, 1024 do, norms are too small. Others share one flat buffer."""
    by_rows = replace(
        JOB, states=replace(JOB.states, weights_follow=True), layout=replace(JOB.layout, data_parallel=512, tensor_parallel=1)
    )
    sharded = replace(by_rows, layout=replace(by_rows.layout, sharding="optimizer"))
    held = shares.of_layer(sharded, False)
    assert held.whole == 2 * 1024 * 2816 + SMALL.norms and held.total == parameters.layer(SMALL, False).total
    assert shares.kept(sharded, held, 1) == held.whole + held.common / 512
    assert shares.of_table(sharded, 0).whole == 32000 * 1024 and shares.of_stage(sharded, 1).whole > 32000 * 1024
    flat = replace(sharded, states=JOB.states)
    assert shares.of_layer(flat, False).whole == 0 == shares.of_layer(by_rows, False).whole


@given(jobs())
def test_who_shares_a_stage_holds_it(job: Job) -> None:
    for stage in range(job.layout.pipeline):
        held = shares.of_stage(job, stage) + shares.of_table(job, stage)
        assert held.total == pytest.approx(parameters.of_stage(job, stage).per_rank(job.layout))
        assert min(held.common, held.experts, held.spread, held.whole) >= -1e-6
