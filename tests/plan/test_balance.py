"""Uneven stages and layers computed again a stage: as good as trying every split, and told with what they gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindrecipe.plan import balance, clock, memory
from mindrecipe.plan.advice import advise
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.job import Job, Recompute
from mindrecipe.plan.overrides import overrides
from plan.jobs import JOB, NPU, laid

REACHED = efficiency_of(JOB)


def with_layers(job: Job, layers: int, vocab: int = 32000) -> Job:
    return replace(job, dims=replace(job.dims, layers=layers, vocab=vocab))


def splits(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    if stages == 1:
        yield (layers,)
        return
    for first in range(1, layers - stages + 2):
        yield from ((first, *rest) for rest in splits(layers - first, stages - 1))


def slowest(job: Job) -> float:
    return max(clock.stage_seconds(job, REACHED, stage) for stage in range(job.layout.pipeline))


@settings(max_examples=25)
@given(st.sampled_from([2, 3, 4]), st.integers(4, 10), st.sampled_from([32000, 256000]), st.floats(0.3, 3.0))
def test_no_split_is_faster_than_the_one_found(stages: int, layers: int, vocab: int, share: float) -> None:
    job = with_layers(laid(pipeline=stages, micro_batches=8), layers, vocab)
    room = share * memory.price(job).peak.total
    found = balance.uneven(job, REACHED, room)
    fitting = [
        tried
        for split in splits(layers, stages)
        for tried in [replace(job, layout=replace(job.layout, layers_of_stages=(split,)))]
        if memory.price(tried).peak.total <= room
    ]
    assert (found is None) == (not fitting)
    if found is not None:
        assert found.peak <= room and found.peak == memory.price(found.job).peak.total
        assert slowest(found.job) == pytest.approx(min(slowest(tried) for tried in fitting))


@given(st.sampled_from([2, 4]), st.floats(0.2, 1.2))
def test_no_fewer_layers_computed_again_would_do(stages: int, share: float) -> None:
    job = laid(pipeline=stages, micro_batches=8)
    room = share * memory.price(job).peak.total
    found = balance.partly(job, REACHED, room)
    if found is None:
        assert memory.price(replace(job, recompute=Recompute(policy="full"))).peak.total > room
        return
    again = found.job.recompute.full_layers or ()
    assert found.peak <= room
    for stage, count in enumerate(again):
        fewer = tuple(count - (place == stage) for place, count in enumerate(again))
        if count:
            assert memory.of_stage(replace(job, recompute=Recompute(full_layers=fewer)), stage).total > room


@pytest.mark.parametrize(
    "job", [laid(pipeline=1), laid(interleave=2), laid(schedule="zero_bubble_v"), replace(JOB, recompute=Recompute(full_layers=(1, 1)))]
)
def test_stages_that_are_not_alike_are_left_alone(job: Job) -> None:
    assert balance.uneven(job, REACHED, 1e15) is None


def test_a_heavy_output_layer_is_relieved() -> None:
    """A vocabulary that computes as much as eight layers: advice names the split, its override and what it gains."""
    job = with_layers(laid(pipeline=2, micro_batches=16, data_parallel=1), 16, 256000)
    (advice,) = (each for each in advise(job, memory.price(job), REACHED) if each.name == "layers where there is room")
    assert not advice.good and "8, 8 on the stages take" in advice.what
    found = balance.uneven(job, REACHED, 0.9 * (NPU.memory_gb or 0) * memory.GIB)
    assert found is not None and advice.mend == f"'model.offset={balance.offset_of(found.job)}'".replace(", ", ",")
    assert sum(balance.offset_of(found.job)) == 0 and balance.offset_of(found.job)[1] < 0
    assert found.step < clock.price(job, REACHED).step


def test_a_split_that_would_not_help_is_not_advised() -> None:
    """An output layer of a third of a layer: whichever stage took the one it gives away would be slower than it is."""
    job = with_layers(laid(pipeline=4, micro_batches=16), 16, 4096)
    advice = {each.name: each for each in advise(job, memory.price(job), REACHED)}
    assert advice["layers where there is room"].good


def test_what_does_not_fit_is_told_how_few_layers_to_compute_again() -> None:
    job = laid(pipeline=2, micro_batch=4)
    least = memory.price(replace(job, recompute=Recompute(policy="full"))).peak.total
    job = replace(job, device=replace(NPU, memory_gb=1.2 * least / memory.GIB))
    assert not memory.price(job).fits
    mend = next(each.mend for each in advise(job, memory.price(job), REACHED) if each.name == "10 to 20 % of HBM free")
    assert mend.startswith("recompute=per_stage 'recompute.layers=[") and "s a step" in mend
    assert all("recompute=per_stage" not in each.mend for each in advise(job, memory.price(job), None))


@pytest.mark.parametrize("layers, chunks, offset", [(8, 2, ""), (9, 1, "'model.offset=[1,0]'"), (9, 2, "'model.offset=[[1,0],[0,0]]'")])
def test_layers_that_do_not_divide_are_told_with_the_layout(layers: int, chunks: int, offset: str) -> None:
    said = overrides(with_layers(laid(pipeline=2, micro_batches=8, interleave=chunks), layers))
    assert said.endswith(offset) if offset else "offset" not in said


def test_groups_that_divide_the_rows_are_advised() -> None:
    """2816 rows of the feed-forward layer over 512 replicas stay whole; over groups of 256 they do not."""
    states = replace(JOB.states, weights_follow=True)
    job = replace(laid(data_parallel=512, tensor_parallel=1, pipeline=1, micro_batches=4, sharding="optimizer"), states=states)
    (advice,) = (each for each in advise(job, memory.price(job), None) if "sharded" in each.name)
    assert not advice.good and advice.mend == "parallel.optimizer_weight_shard_size=256" and "512 replicas" in advice.what
    better = replace(job, layout=replace(job.layout, shard_size=256))
    (advice,) = (each for each in advise(better, memory.price(better), None) if "sharded" in each.name)
    assert advice.good and "256 replicas share" in advice.what
