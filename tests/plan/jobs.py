"""Jobs for tests: random ones that can be laid out, and a small fixed one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from mindrecipe.models.hardware import CATALOGUE, REFERENCE
from mindrecipe.plan.framework import MINDSPORE, TORCH_EAGER
from mindrecipe.plan.job import Dimensions, Job, Layout, Recompute, States

NPU = CATALOGUE["ascend_910b"]
A100 = REFERENCE["a100_80gb"]
SMALL = Dimensions(
    layers=8, hidden=1024, heads=16, kv_heads=8, head_dim=64, feed_forward=2816, vocab=32000, seq=2048, norms=2048, final_norm=1024
)
JOB = Job(dims=SMALL, device=NPU, layout=Layout(data_parallel=2, tensor_parallel=2, pipeline=2, micro_batches=8))


def laid(job: Job = JOB, **axes: object) -> Job:
    """``job`` with some axes of its layout changed."""
    return replace(job, layout=replace(job.layout, **axes))  # type: ignore[arg-type]


@st.composite
def dimensions(draw: st.DrawFn) -> Dimensions:
    heads = 2 ** draw(st.integers(2, 5))
    head_dim = draw(st.sampled_from([32, 64, 128]))
    hidden = heads * head_dim
    moe = draw(st.booleans())
    return Dimensions(
        layers=draw(st.integers(4, 24)),
        hidden=hidden,
        heads=heads,
        kv_heads=draw(st.sampled_from([heads, heads // 2, heads // 4])),
        head_dim=head_dim,
        feed_forward=64 * draw(st.integers(4, 64)),
        vocab=64 * draw(st.integers(10, 2000)),
        seq=1024 * draw(st.integers(1, 8)),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        biases=draw(st.booleans()) and not moe,
        norms=2 * hidden,
        final_norm=hidden,
        experts=8 if moe else 0,
        experts_per_token=2 if moe else 0,
        expert_width=512 if moe else 0,
        dense_layers=draw(st.integers(0, 3)) if moe else 0,
        flash=draw(st.booleans()),
        dropout=draw(st.booleans()),
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    dims = draw(dimensions())
    stages = draw(st.sampled_from([1, 2, 4]))
    interleave = draw(st.sampled_from([1, 2])) if stages > 1 and 2 * stages <= dims.layers else 1
    layout = Layout(
        data_parallel=draw(st.sampled_from([1, 2, 8])),
        tensor_parallel=draw(st.sampled_from([1, 2, 4])),
        context_parallel=draw(st.sampled_from([1, 2])),
        pipeline=stages,
        sequence_parallel=draw(st.booleans()),
        micro_batch=draw(st.integers(1, 4)),
        micro_batches=draw(st.integers(stages, 4 * stages)),
        interleave=interleave,
        schedule=draw(st.sampled_from(["1f1b", "gpipe"])) if interleave == 1 else "1f1b",
        sharding=draw(st.sampled_from(["none", "optimizer", "gradients", "full"])),
        split_vocabulary=draw(st.booleans()),
    )
    states = draw(
        st.sampled_from(
            [States(), States(weight=4, master=0, working=8, weights_follow=True), States(weight=2, gradient=2, gradients_live=False)]
        )
    )
    return Job(
        dims=dims,
        device=draw(st.sampled_from([NPU, A100])),
        layout=layout,
        states=states,
        recompute=Recompute(policy=draw(st.sampled_from(["none", "selective", "attention", "full"]))),
        framework=draw(st.sampled_from([MINDSPORE, TORCH_EAGER])),
    )
