"""Public faults of the parallel plan, each by its number: meshes, pipelines, heads, vocabularies, experts, batches."""

from __future__ import annotations

import pytest

from cases.words import LLAMA_7B, TINY, accepted, refused, warned
from mends import findings, quick
from mindrecipe.rules.pipeline import layers_of_stages

pytestmark = pytest.mark.usefixtures("here")
MOE = ("model=custom", "run.name=moe", "model.architecture=mcore", "parallel=semi_auto", "model.extra.num_experts=8")


@pytest.mark.parametrize(("stages", "micro"), [(2, 1), (4, 2), (8, 7)])
def test_c19_fewer_micro_batches_than_stages(stages: int, micro: int) -> None:
    knobs = (f"parallel.pipeline_stage={stages}", f"parallel.micro_batch_num={micro}")
    refused(*LLAMA_7B, *knobs, by="mesh.micro_batches", mend=f"parallel.micro_batch_num={stages}")


def test_c20_micro_batches_without_a_pipeline() -> None:
    knobs = ("parallel.data_parallel=8", "parallel.micro_batch_num=16")
    warned(*LLAMA_7B, *knobs, by="mesh.micro_batches_reset", says="the global batch is 8")
    assert quick(*LLAMA_7B, *knobs).derived.global_batch_size == 8


@pytest.mark.parametrize(
    ("overrides", "batch"),
    [
        ((*LLAMA_7B, "dataset.batch_size=2", "launch.workers=2", "parallel.gradient_accumulation_steps=4"), 16),
        (
            (*LLAMA_7B, "parallel.pipeline_stage=2", "parallel.data_parallel=4", "parallel.micro_batch_num=8"),
            32,
        ),
        (
            (*LLAMA_7B, "parallel.pipeline_stage=2", "parallel.micro_batch_num=8", "parallel.gradient_accumulation_steps=4"),
            32,
        ),
        ((*TINY, "parallel=data", "dataset.batch_size=2", "launch.workers=2"), 4),
    ],
)
def test_c22_the_global_batch(overrides: tuple[str, ...], batch: int) -> None:
    assert quick(*overrides).derived.global_batch_size == batch


def test_c23_heads_and_key_value_heads() -> None:
    refused(*LLAMA_7B, "model.num_heads=4", "parallel.model_parallel=3", "launch.workers=3", by="mesh.heads")
    sixteen = ("parallel.model_parallel=16", "launch.nodes=2", "launch.master_addr=10.0.0.1")
    refused(*LLAMA_7B, "model.num_kv_heads=8", *sixteen, by="mesh.heads", says="num_kv_heads=8")
    # GLM repeats key/value heads
    accepted(
        "model=custom", "run.name=glm", "parallel=semi_auto", "model.num_heads=32", "model.num_kv_heads=2", "parallel.model_parallel=4"
    )


def test_c25_vocabulary_and_model_parallel() -> None:
    knobs = ("model.vocab_size=50257", "parallel.model_parallel=8", "parallel.vocab_emb_dp=true")
    warned(*LLAMA_7B, *knobs, by="mesh.head_unsplit", says="50257")
    split = ("model.vocab_size=49153", "parallel.model_parallel=4", "parallel.vocab_emb_dp=false")
    refused(*LLAMA_7B, *split, by="mesh.vocabulary", mend="model.vocab_size=49156, or parallel.vocab_emb_dp=true")


def test_c26_layers_over_stages() -> None:
    stages = (*LLAMA_7B, "parallel.pipeline_stage=4", "parallel.micro_batch_num=4")
    refused(*stages, "model.num_layers=30", by="mesh.layers", says="gives 28 layers", mend="model.offset=[0,1,1,0]")
    refused(*LLAMA_7B, "model.num_layers=1", "parallel.pipeline_stage=2", "parallel.micro_batch_num=2", by="mesh.layers")
    offset = [[1] * 8, [*[1] * 7, -2]]
    deepseek = ("model.num_layers=61", "parallel.pipeline_stage=8", "parallel.micro_batch_num=8", "parallel.pipeline_interleave=2")
    accepted(*LLAMA_7B, *deepseek, f"model.offset={offset}".replace(" ", ""))
    assert sum(map(sum, layers_of_stages(61, 8, 2, offset) or [])) == 61


def test_c28_strategy_of_the_data() -> None:
    two = ("launch.workers=2", "parallel.full_batch=false")
    refused(*LLAMA_7B, *two, "native.parallel.dataset_strategy=[[1,1]]", by="native.dataset_strategy", says="data_parallel=2")
    # every rank its own shard: the strategy is filled in
    assert quick(*LLAMA_7B, *two).lower()["parallel"]["dataset_strategy"] == [[2, 1]]
    columns = "dataset.columns=[a,b,c,d]"
    refused(*LLAMA_7B, *two, columns, "native.parallel.dataset_strategy=[[2,1],[2,1],[2,1]]", by="native.dataset_strategy", says="4 lists")


def test_c29_shards_follow_data_parallel() -> None:
    """16 devices, 2 stages, data_parallel 4: mindformers numbers the shards (rank % 8) // 2 of our 4."""
    mesh = ("launch.devices_per_node=16", "parallel.pipeline_stage=2", "parallel.micro_batch_num=2", "parallel.model_parallel=2")
    derived = quick(*LLAMA_7B, *mesh, "parallel.full_batch=false").derived
    assert derived.config.parallel.data_parallel == derived.batch.num_shards == 4
    shard = {rank: (rank % (16 // 2)) // (16 // 2 // derived.batch.num_shards) for rank in (0, 5, 7, 13, 15)}
    assert shard == {0: 0, 5: 2, 7: 3, 13: 2, 15: 3}
    assert quick(*LLAMA_7B, *mesh).derived.batch.num_shards == 1


def test_c31_experts() -> None:
    refused(*MOE, "parallel.model_parallel=8", by="mesh.experts_sequence_parallel", mend="parallel.use_seq_parallel=true")
    wide = ("parallel.model_parallel=8", "parallel.use_seq_parallel=true", "parallel.expert_parallel=16")
    refused(*MOE, *wide, by="mesh.experts")
    refused(*MOE[:-1], "model.extra.n_routed_experts=64", *wide, by="mesh.experts", says="data_parallel x model_parallel = 8")
    legacy = ("model=custom", "run.name=moe", "parallel=semi_auto", "native.moe_config.expert_num=8")
    refused(*legacy, "parallel.model_parallel=8", by="mesh.experts_sequence_parallel")


def test_c32_vocab_emb_dp_with_stages() -> None:
    stages = (*LLAMA_7B, "parallel.pipeline_stage=2", "parallel.micro_batch_num=2", "parallel.vocab_emb_dp=true")
    warned(*stages, by="mesh.vocab_emb_dp_reset", says="pipeline_stage=2")
    assert [finding.rule for finding in findings(*stages[:-1], make=quick)] == []
