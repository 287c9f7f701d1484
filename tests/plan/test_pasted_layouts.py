"""Every layout that a search shows, pasted behind the very words of the search, is sound and is that layout."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mends import errors, findings, quick
from mindrecipe.plan.explained import layout_plain
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.of_run import job_of
from mindrecipe.plan.overrides import overrides
from mindrecipe.plan.planned import search_for

pytestmark = pytest.mark.usefixtures("here")
HOSTS = "launch.master_addr=10.0.0.1"
BASES = (
    ("+model=llama2_7b", "amp=O2"),
    ("+model=llama2_7b", "amp=O2", "parallel=semi_auto"),
    ("+model=qwen3_8b", "parallel=semi_auto", "amp=O2", "launch.nodes=2", HOSTS),
    ("+recipe=llama2_7b_pretrain_8x64g",),
    ("+recipe=llama2_13b_pretrain_16x64g", HOSTS),
    ("+recipe=llama2_70b_pretrain_64x64g", HOSTS),
    ("+recipe=qwen3_32b_pretrain_16x64g", HOSTS),
)
#: what words may say of another layout
OTHERS = (
    ("parallel.context_parallel=2",),
    ("parallel.context_parallel=8", "parallel.context_parallel_algo=hybrid_cp", "parallel.ulysses_degree_in_cp=4"),
    ("parallel.pipeline_stage=2", "parallel.micro_batch_num=8"),
    (
        "parallel.pipeline_stage=2",
        "parallel.micro_batch_num=8",
        "parallel.pipeline_interleave=2",
        "parallel.pipeline_scheduler=zero_bubble_v",
    ),
    ("parallel.gradient_accumulation_steps=4",),
    ("parallel.model_parallel=4", "parallel.use_seq_parallel=true"),
    ("parallel.optimizer_parallel=true", "parallel.optimizer_weight_shard_size=2"),
    ("parallel.optimizer_parallel=false",),
    ("parallel.vocab_emb_dp=true",),
    ("parallel.micro_batch_interleave_num=2",),
    ("model.offset=[1,-1]", "parallel.pipeline_stage=2"),
    ("recompute=per_stage", "recompute.layers=[4]"),
    ("recompute=selective", r"recompute.patterns=['feed_forward\.w1']"),
    ("recompute=selective", r"recompute.patterns={'feed_forward\.w1': [4]}"),
    (r"recompute.select_comm_recompute={'.*\.norm': [4]}",),
    ("dataset.batch_size=4",),
    ("launch.devices_per_node=16",),
    ("parallel=planned", "parallel.global_batch_size=64"),
    ("parallel.data_parallel=8",),
)


@settings(max_examples=25)
@given(st.sampled_from(BASES), st.lists(st.sampled_from(OTHERS), max_size=2), st.sampled_from([None, 128, 1024]))
def test_a_layout_that_is_pasted_is_sound_and_is_that_layout(base: tuple[str, ...], more: list[tuple[str, ...]], batch: int | None) -> None:
    words = (*base, *(word for each in more for word in each))
    derived = quick(*words).derived
    try:
        found, _, _ = search_for(derived.config, derived.family, derived.hardware, derived.device_num, batch, top=2)
    except CannotPrice:
        return
    for candidate in found.best:
        pasted = (*words, *shlex.split(overrides(candidate.job, derived.written)))
        assert errors(*pasted, make=quick) == [], pasted
        again = quick(*pasted).derived
        job = job_of(again.config, again.family, again.hardware, again.device_num)
        assert layout_plain(job) == layout_plain(candidate.job), pasted


@settings(max_examples=40)
@given(st.sampled_from(BASES), st.lists(st.sampled_from(OTHERS), max_size=2), st.sampled_from([1, 4, 16]))
def test_a_remedy_for_memory_is_refused_for_nothing_new_and_fits(base: tuple[str, ...], more: list[tuple[str, ...]], size: int) -> None:
    words = (*base, *(word for each in more for word in each), f"dataset.batch_size={size}")
    found = findings(*words, make=quick)
    told = next((finding for finding in found if finding.rule == "memory.estimate"), None)
    if told is None or "<more hosts>" in (told.mend or ""):
        return
    left = {finding.rule: finding.severity for finding in findings(*words, *shlex.split(told.mend or ""), make=quick)}
    assert "memory.estimate" not in left
    assert {rule for rule, severity in left.items() if severity == "error"} <= {each.rule for each in found}
