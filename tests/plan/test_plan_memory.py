"""Memory: monotone in what must be monotone, items that sum, stages under each schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mindrecipe.plan import activations, memory, stages
from mindrecipe.plan.framework import MINDSPORE
from mindrecipe.plan.job import CannotPrice, Job, Policy, Recompute
from mindrecipe.plan.shares import Held
from plan.jobs import JOB, SMALL, jobs, laid


def peak(job: Job) -> float:
    return memory.price(job).peak.total


def with_dims(job: Job, **changes: object) -> Job:
    return replace(job, dims=replace(job.dims, **changes))  # type: ignore[arg-type]


@given(jobs())
def test_items_sum_and_none_is_negative(job: Job) -> None:
    for stage in memory.price(job).stages:
        assert all(size >= 0 for size in stage.items.values())
        assert stage.total == pytest.approx(sum(stage.items.values()))
        assert sum(stage.kinds.values()) == pytest.approx(stage.items["activations"]) or not job.states.gradients_live


@given(jobs(), st.sampled_from(["layers", "vocab", "seq", "feed_forward"]))
def test_a_larger_model_needs_more(job: Job, dimension: str) -> None:
    assume(job.layout.pipeline == 1 or dimension != "layers")
    assert peak(with_dims(job, **{dimension: 2 * getattr(job.dims, dimension)})) >= peak(job)


@given(jobs())
def test_a_larger_micro_batch_needs_more(job: Job) -> None:
    assert peak(laid(job, micro_batch=2 * job.layout.micro_batch)) >= peak(job)


@given(jobs())
def test_splitting_needs_no_more(job: Job) -> None:
    t = job.layout.tensor_parallel
    assume(job.dims.heads % (2 * t) == 0)
    assert peak(laid(job, tensor_parallel=2 * t)) <= peak(job) * (1 + 1e-9)
    assert peak(laid(job, sequence_parallel=True)) <= peak(job) * (1 + 1e-9)
    if job.dims.seq % (2 * job.layout.context_parallel) == 0:
        assert peak(laid(job, context_parallel=2 * job.layout.context_parallel)) <= peak(job) * (1 + 1e-9)


@given(jobs())
def test_more_sharding_needs_no_more_static_memory(job: Job) -> None:
    static = [
        sum(memory.states(laid(job, sharding=sharding), Held(1e9), Held()).values())
        for sharding in ("none", "optimizer", "gradients", "full")
    ]
    assert static == sorted(static, reverse=True)


@given(jobs(), st.booleans())
def test_more_recomputation_keeps_less(job: Job, moe: bool) -> None:
    kept: dict[Policy, float] = {p: activations.of_layer(job, moe and job.dims.experts > 0, p).total for p in ("none", "selective", "attention", "full")}  # fmt: skip
    assert kept["full"] <= min(kept.values()) and kept["none"] == max(kept.values())
    whole = sum(activations.tensors(job, moe and job.dims.experts > 0).values())
    for policy in kept:
        layer = activations.of_layer(job, moe and job.dims.experts > 0, policy)
        assert layer.total + layer.again == pytest.approx(whole)


@given(jobs())
def test_the_table_by_layer_is_the_table_by_stage(job: Job) -> None:
    assume(job.states.gradients_live)
    table = memory.by_layer(job)
    assert [layer.index for layer in table] == list(range(job.dims.layers))
    for stage in memory.price(job).stages:
        mine = [layer for layer in table if layer.stage == stage.stage]
        assert sum(layer.activations for layer in mine) == pytest.approx(sum(stage.kinds.values()))


def test_each_micro_batch_in_flight_casts_weights_that_are_not_sharded() -> None:
    """Read from the memory tracker of dry runs: Linear/Cast a micro batch, Linear/AllGather once; recomputed layers cast again."""
    mindspore = replace(JOB, framework=MINDSPORE, states=replace(JOB.states, weight=4, master=0, working=2, weights_follow=True))
    alone = laid(mindspore, data_parallel=1, pipeline=4, micro_batches=8)
    copies = [stage.items["working copies"] for stage in memory.price(alone).stages]
    each = 2 * 2 * memory.layer_kinds(alone)[0].held  # two layers a stage
    assert copies[:3] == [pytest.approx(count * each) for count in (4, 3, 2)]
    shared = memory.price(laid(alone, data_parallel=2, sharding="optimizer"))
    assert shared.stages[0].items["working copies"] == pytest.approx(each)
    again = memory.price(replace(alone, recompute=Recompute(policy="full")))
    assert again.stages[0].items["working copies"] == pytest.approx(each)


def _alive_1f1b(stages_: int, micro: int, stage: int) -> int:
    """Most forwards without their backward when warm-up forwards are followed by one forward, one backward."""
    warm = min(micro, stages_ - stage - 1)
    order = ["f"] * warm + ["f", "b"] * (micro - warm) + ["b"] * warm
    alive = most = 0
    for step in order:
        alive += 1 if step == "f" else -1
        most = max(most, alive)
    return most


@given(st.integers(1, 8), st.integers(1, 20), st.data())
def test_in_flight_is_what_the_schedule_does(count: int, micro: int, data: st.DataObject) -> None:
    stage = data.draw(st.integers(0, count - 1))
    job = with_dims(laid(pipeline=count, micro_batches=max(micro, count)), layers=2 * count)
    assert stages.in_flight(job, stage) == _alive_1f1b(count, max(micro, count), stage) or count == 1
    assert stages.in_flight(replace(job, layout=replace(job.layout, schedule="gpipe")), stage) == (max(micro, count) if count > 1 else 1)


def test_interleaving_keeps_more_by_korthikanti_s_factor() -> None:
    """1 + (p-1)/(p v) times the layers of one device's share (arXiv 2205.05198, section 4.2.3)."""
    p, v, layers = 4, 2, 16
    job = with_dims(laid(pipeline=p, micro_batches=16, interleave=v), layers=layers)
    assert layers / p * stages.in_flight(job, 0) == pytest.approx(layers * (1 + (p - 1) / (p * v)), rel=0.05)


def test_the_v_of_zero_bubble_comes_back() -> None:
    job = laid(pipeline=2, schedule="zero_bubble_v", micro_batches=8)
    assert stages.layers_of(job, 0) == [0, 1, 6, 7] and stages.layers_of(job, 1) == [2, 3, 4, 5]
    held = memory.price(job)
    assert held.stages[0].items["logits and loss"] > 0 and held.stages[1].items["logits and loss"] == 0


def test_uneven_stages_and_layers_a_stage() -> None:
    job = laid(layers_of_stages=((5, 3),))
    assert [stage.layers for stage in memory.price(job).stages] == [5, 3]
    with pytest.raises(CannotPrice, match="no split of 8 over 2"):
        memory.price(laid(layers_of_stages=((5, 4),)))
    some = replace(JOB, recompute=Recompute(full_layers=(3, 0)))
    none, full = JOB, replace(JOB, recompute=Recompute(policy="full"))
    first = [memory.price(each).stages[0].items["activations"] for each in (none, some, full)]
    assert first[0] > first[1] > first[2]
    assert memory.price(some).stages[1].total == memory.price(none).stages[1].total


@pytest.mark.parametrize(
    "axes, part",
    [
        ({"tensor_parallel": 3}, "tensor_parallel 3 does not divide 16 heads"),
        ({"context_parallel": 3}, "context_parallel 3"),
        ({"pipeline": 16}, "too few"),
        ({"micro_batch": 0}, "micro_batch is 0"),
    ],
)
def test_what_can_t_be_laid_out_is_named(axes: dict[str, object], part: str) -> None:
    with pytest.raises(CannotPrice, match=part):
        memory.price(laid(**axes))


def test_scores_of_unfused_attention_are_korthikanti_s() -> None:
    """s b h (34 + 5 a s / h) bytes of a GPT layer with dropout in half (arXiv 2205.05198, equation 1), b = t = 1."""
    from mindrecipe.plan.framework import Framework

    dims = replace(SMALL, kv_heads=16, feed_forward=4096, gated=False, dropout=True, flash=False)
    job = replace(
        JOB, dims=dims, layout=replace(JOB.layout, tensor_parallel=1, pipeline=1, data_parallel=1), framework=Framework(name="plain")
    )
    s, h, a = dims.seq, dims.hidden, dims.heads
    assert sum(activations.tensors(job, False).values()) == pytest.approx(s * h * (34 + 5 * a * s / h), rel=0.01)


def test_layers_recomputed_a_chunk() -> None:
    """The early chunks wait for more micro batches: what they do not keep saves more; a number a stage goes to the chunks in turn."""
    job = with_dims(laid(pipeline=2, micro_batches=8, interleave=2), layers=8)

    def kept(chunks: tuple[tuple[int, ...], ...] | None, whole: tuple[int, ...]) -> float:
        return memory.of_stage(replace(job, recompute=Recompute(full_layers=whole, full_chunks=chunks)), 0).items["activations"]

    early, late = kept(((2, 2), (0, 0)), (2, 2)), kept(((0, 0), (2, 2)), (2, 2))
    assert early < kept(None, (2, 2)) < late
    assert kept(None, (2, 2)) == kept(((1, 1), (1, 1)), (2, 2)) and kept(None, (3, 2)) == kept(((2, 1), (1, 1)), (3, 2))
    assert kept(((9, 9), (9, 9)), (18, 18)) == memory.of_stage(replace(job, recompute=Recompute(policy="full")), 0).items["activations"]
    assert kept(((0, 0), (0, 0)), (0, 0)) == memory.of_stage(job, 0).items["activations"]
