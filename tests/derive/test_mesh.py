"""device_num, data_parallel, the global batch and the shards: mindformers' arithmetic, checked against the published numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.config.schema import LaunchConfig, ModelConfig, ParallelConfig
from mindrecipe.derive.mesh import SHARDED, Batch, batch_of, complete_launch, complete_parallel, device_num
from mindrecipe.models.hardware import CATALOGUE
from mindrecipe.plan.offsets import layers_of_stages
from mindrecipe.rules.mesh import divisor_near, divisors_of, factorizations

MODEL = ModelConfig()
_small = st.integers(1, 16)
_modes = st.sampled_from(["standalone", "data_parallel", "semi_auto", "auto", "hybrid"])
_parallels = st.builds(
    ParallelConfig,
    mode=_modes,
    data_parallel=st.none() | _small,
    model_parallel=_small,
    context_parallel=st.sampled_from([1, 2, 4]),
    pipeline_stage=_small,
    micro_batch_num=_small,
    micro_batch_interleave_num=st.sampled_from([1, 2]),
    gradient_accumulation_steps=_small,
    full_batch=st.booleans(),
)


def _batch(batch_size: int, devices: int, **given_parallel: object) -> Batch:
    parallel = complete_parallel(ParallelConfig(**given_parallel), MODEL, devices)  # type: ignore[arg-type]
    return batch_of(parallel, batch_size, devices)


@pytest.mark.parametrize(
    "expected, batch_size, devices, parallel",
    [
        (16, 2, 2, {"mode": "semi_auto", "data_parallel": 2, "gradient_accumulation_steps": 4}),
        (32, 1, 8, {"mode": "semi_auto", "pipeline_stage": 2, "data_parallel": 4, "micro_batch_num": 8, "gradient_accumulation_steps": 4}),
        (4, 2, 2, {"mode": "data_parallel"}),
        (8, 1, 8, {"mode": "semi_auto", "data_parallel": 8, "micro_batch_num": 16}),
        # interleave counts in both, accumulation is reset outside of semi_auto and auto
        (64, 2, 4, {"mode": "auto", "micro_batch_interleave_num": 2, "gradient_accumulation_steps": 4}),
        (24, 1, 4, {"mode": "semi_auto", "pipeline_stage": 2, "micro_batch_num": 6, "micro_batch_interleave_num": 2}),
        (4, 2, 2, {"mode": "hybrid", "gradient_accumulation_steps": 8}),
        (3, 3, 1, {"mode": "standalone"}),
    ],
)
def test_global_batch(expected: int, batch_size: int, devices: int, parallel: dict[str, object]) -> None:
    assert _batch(batch_size, devices, **parallel).global_batch_size == expected


@given(_parallels, st.integers(1, 8), st.integers(1, 64))
def test_batch_is_whole(parallel: ParallelConfig, batch_size: int, devices: int) -> None:
    done = complete_parallel(parallel, MODEL, devices)
    batch = batch_of(done, batch_size, devices)
    assert batch.per_loader * batch.num_shards == batch.global_batch_size
    if parallel.mode in SHARDED:
        assert done.data_parallel is not None
        assert batch.num_shards == (1 if parallel.full_batch else done.data_parallel)
        in_time = batch.micro_batch_num * batch.gradient_accumulation_steps * parallel.micro_batch_interleave_num
        assert batch.global_batch_size == batch_size * done.data_parallel * in_time
        assert batch.micro_batch_num == 1 or parallel.pipeline_stage > 1
        assert batch.gradient_accumulation_steps == 1 or parallel.pipeline_stage == 1
    else:
        assert (batch.per_loader, batch.num_shards) == (batch_size, devices)
        assert batch.global_batch_size == batch_size * devices
        assert batch.micro_batch_num == batch.gradient_accumulation_steps == 1


@given(_parallels, st.integers(1, 128))
def test_data_parallel_is_what_is_left(parallel: ParallelConfig, devices: int) -> None:
    done = complete_parallel(parallel, MODEL, devices)
    axes = parallel.model_parallel * parallel.context_parallel * parallel.pipeline_stage
    if parallel.data_parallel is not None:
        assert done.data_parallel == parallel.data_parallel
    elif parallel.mode not in SHARDED:
        assert done.data_parallel == devices
    elif devices % axes == 0:
        assert done.data_parallel is not None and done.data_parallel * axes == devices
    assert replace(done, data_parallel=parallel.data_parallel, vocab_emb_dp=parallel.vocab_emb_dp) == parallel


@pytest.mark.parametrize(
    "vocabulary, model_parallel, stages, given_value, expected",
    [
        (32000, 1, 1, None, True),
        (32000, 8, 1, None, False),
        (50257, 8, 1, None, True),
        (32000, 1, 2, None, False),
        (50257, 8, 2, None, False),
        (32000, 8, 1, True, True),
        (50257, 8, 1, False, False),
    ],
)
def test_vocab_emb_dp(vocabulary: int, model_parallel: int, stages: int, given_value: bool | None, expected: bool) -> None:
    """Split when it can be; with stages mindformers splits whatever is written."""
    parallel = ParallelConfig(mode="semi_auto", model_parallel=model_parallel, pipeline_stage=stages, vocab_emb_dp=given_value)
    assert complete_parallel(parallel, ModelConfig(vocab_size=vocabulary), 16).vocab_emb_dp is expected


@pytest.mark.parametrize(
    "launch, mode, device, per_node, rank, devices",
    [
        ({}, "standalone", "cpu", 1, 0, 1),
        ({}, "data_parallel", "cpu", 2, 0, 2),
        ({}, "semi_auto", "ascend_910b", 8, 0, 8),
        ({"nodes": 4}, "semi_auto", "ascend_910b", 8, None, 32),
        ({"nodes": 2, "node_rank": 1, "devices_per_node": 4}, "semi_auto", "ascend_910b", 4, 1, 8),
        ({"workers": 3}, "data_parallel", "cpu", 3, 0, 3),
        ({"nodes": 1250}, "auto", "ascend_910b", 8, None, 10_000),
    ],
)
def test_launch(launch: dict[str, int], mode: str, device: str, per_node: int, rank: int | None, devices: int) -> None:
    done = complete_launch(LaunchConfig(**launch), ParallelConfig(mode=mode), CATALOGUE[device])
    assert (done.devices_per_node, done.node_rank, device_num(done)) == (per_node, rank, devices)


def test_shards_of_sixteen_devices() -> None:
    """16 devices, 2 stages, data_parallel 4, every rank its own shard: mindformers' shard ids use our num_shards."""
    batch = _batch(1, 16, mode="semi_auto", pipeline_stage=2, model_parallel=2, data_parallel=4, micro_batch_num=2, full_batch=False)
    assert batch.num_shards == 4
    per_stage = 16 // 2
    shard = {rank: (rank % per_stage) // (per_stage // batch.num_shards) for rank in range(16)}
    assert {rank: shard[rank] for rank in (0, 5, 7, 13, 15)} == {0: 0, 5: 2, 7: 3, 13: 2, 15: 3}
    whole = _batch(1, 16, mode="semi_auto", pipeline_stage=2, model_parallel=2, data_parallel=4, micro_batch_num=2)
    assert whole.num_shards == 1, "full_batch: no shard"


# --- the arithmetic of mends


@given(st.integers(1, 5000))
def test_divisors(number: int) -> None:
    assert divisors_of(number) == [k for k in range(1, number + 1) if number % k == 0]


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_divisor_near(number: int, near: int) -> None:
    found = divisor_near(number, near)
    assert number % found == 0
    best = min(abs(math.log2(k / near)) for k in divisors_of(number))
    assert abs(math.log2(found / near)) == best
    if number % near == 0:
        assert found == near


_meshes = st.tuples(_small, _small, st.sampled_from([1, 2, 4]), _small)


@given(st.integers(1, 10_000), _meshes)
def test_factorizations(devices: int, wanted: tuple[int, int, int, int]) -> None:
    found = factorizations(devices, wanted)
    assert 1 <= len(found) <= 3 and len(set(found)) == len(found)
    for mesh in found:
        assert math.prod(mesh) == devices
        if devices % wanted[2] == 0:
            assert mesh[2] == wanted[2], "context_parallel is kept where it divides"
    if math.prod(wanted) == devices:
        assert found[0] == wanted


# --- layers over stages


@pytest.mark.parametrize(
    "layers, stages, interleave, offset, expected",
    [
        (32, 4, 1, 0, [[8, 8, 8, 8]]),
        (30, 4, 1, [0, 1, 1, 0], [[7, 8, 8, 7]]),
        # the published Qwen3 32B and DeepSeek-V3 files
        (64, 4, 1, [-1, -1, 1, 1], [[15, 15, 17, 17]]),
        (61, 8, 2, [[1] * 8, [1] * 7 + [-2]], [[4] * 8, [4] * 7 + [1]]),
        # numpy broadcasts a number to every stage, and one list to every chunk: mindformers would build 36 and 34 layers
        (30, 4, 1, 2, [[9, 9, 9, 9]]),
        (18, 2, 2, [1, 1], [[5, 5], [5, 5]]),
    ],
)
def test_layers_of_stages(layers: int, stages: int, interleave: int, offset: object, expected: list[list[int]]) -> None:
    assert layers_of_stages(layers, stages, interleave, offset) == expected


@pytest.mark.parametrize("offset", [[1], [1, 1, 1], [[1, 1]], [[1, 1], [1]], ["x", 1], [[["1"]]], [], [None, 1]])
def test_offsets_of_another_shape(offset: object) -> None:
    assert layers_of_stages(8, 2, 2, offset) is None
