"""What check accepts, it accepts with rehearse=mini: on a machine without NPUs, on one with eight, and simulated."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mends import LARGE, MACHINE, TINY, quick
from mindrecipe.derive import derive
from mindrecipe.errors import UserError
from mindrecipe.rules import check
from mindrecipe.rules.rehearsed import rehearsed

pytestmark = pytest.mark.usefixtures("here")
NPUS = replace(MACHINE, npu="ascend_910b", npu_count=8)
HOSTS = "launch.master_addr=10.0.0.1"
STAGES = ("parallel.pipeline_stage=4", "parallel.micro_batch_num=8")
PROFILE = ("profile=steps", "profile.start=100", "profile.stop=110")
HYBRID = ("parallel.context_parallel=8", "parallel.context_parallel_algo=hybrid_cp", "parallel.ulysses_degree_in_cp=4")
V_SHAPED = (*STAGES, "parallel.pipeline_interleave=2", "parallel.pipeline_scheduler=zero_bubble_v")

#: raise it for a long search
EXAMPLES = int(os.environ.get("MINDRECIPE_FUZZ", "25"))
#: what a rehearsal on a CPU can't stand for: it says so
ON_ASCEND_ONLY = ("optimizer.came_cpu",)
#: words of runs that are sound, and whose rehearsals were refused
ONCE = [
    (TINY, "dataset=text", "dataset.files=[a.jsonl]", "dataset.text_field=content"),
    ("+recipe=llama2_7b_pretrain_8x64g", "schedule=wsd"),
    (*LARGE, "launch=ssh", "launch.hosts=[a,b]"),
    (*LARGE, "launch=slurm", 'launch.sbatch_args=["--partition=npu"]', "launch.nodes=2", HOSTS),
    (*LARGE, *HYBRID),
    (*LARGE, "launch=simulate", *HYBRID),
    (TINY, *PROFILE),
    (TINY, *PROFILE, "schedule.total_steps=200"),
    (*LARGE, *PROFILE, "profile.ranks=[7]"),
    (*LARGE, "dataset.num_shards=8", "parallel.full_batch=false"),
    (*LARGE, "launch.rank_table=ranks.json"),
    ("+model=qwen3_8b", *LARGE[1:], "checkpoint=steps", "checkpoint.style=section"),
    (*LARGE, "native.parallel_config.model_parallel=4", "parallel.model_parallel=4"),
    (*LARGE, "native.context.device_target=Ascend"),
    ("+model=llama2_7b", "amp=O2", "parallel=planned", "parallel.global_batch_size=256"),
]


def refused(words: tuple[str, ...], machine: object) -> list[tuple[str, str]]:
    """The errors of a rehearsal of ``words``."""
    run = quick(*words)
    small, _ = rehearsed(run.config, machine)
    found = check(derive(small, machine), run.provenance)
    return [(each.rule, each.what) for each in found if each.severity == "error" and each.rule not in ON_ASCEND_ONLY]


@pytest.mark.parametrize("machine", [MACHINE, NPUS], ids=["no NPU", "NPUs"])
@pytest.mark.parametrize("words", ONCE, ids=" ".join)
def test_what_was_refused_once(words: tuple[str, ...], machine: object) -> None:
    assert not [found for found in quick(*words).check() if found.severity == "error"]
    assert refused(words, machine) == []


BASES = (
    (TINY,),
    (TINY, "parallel=data", "launch.workers=2"),
    LARGE,
    ("+model=qwen3_8b", *LARGE[1:]),
    ("+model=qwen3_tiny",),
    ("+recipe=llama2_70b_pretrain_64x64g", HOSTS),
    ("+recipe=qwen3_32b_pretrain_16x64g", HOSTS),
)
MORE = (
    *([each] for each in ("schedule=wsd", "schedule=constant_cooldown", "schedule=cosine_restarts", "schedule=linear", "schedule=polynomial")),
    ["schedule.warmup_ratio=0.03"], ["schedule.warmup_steps=500", "schedule.total_steps=1000"],
    ["schedule=wsd", "schedule.warmup_steps=16", "schedule.decay_steps=14", "schedule.total_steps=30"],
    ["schedule=wsd", "schedule.warmup_steps=200", "schedule.decay_steps=300"], ["schedule.total_steps=5"], ["schedule.total_steps=100000"],
    [*STAGES], [*STAGES, "parallel.pipeline_interleave=2"], [*V_SHAPED], [*V_SHAPED, "recompute=attention"], [*HYBRID],
    ["parallel.context_parallel=2", "parallel.context_parallel_algo=ulysses_cp"], ["parallel.context_parallel=4"],
    ["parallel.model_parallel=8", "parallel.use_seq_parallel=true"], ["parallel.gradient_accumulation_steps=8"],
    ["parallel.optimizer_weight_shard_size=4"], ["parallel.micro_batch_interleave_num=2"], ["parallel.full_batch=false"],
    ["parallel.vocab_emb_dp=true"], ["launch=simulate"], ["launch.nodes=4", HOSTS], ["launch.max_restarts=3", "launch.restart_backoff=1"],
    ["launch.msrun_args=['--bind_numa=True']"], ["launch.bind_core=true"], ["launch.hccl_connect_timeout=600"], ["launch=ssh", "launch.hosts=[a,b,c,d]"],
    ["recompute=full", "recompute.mp_comm_recompute=false"], ["recompute=selective"], ["recompute=per_stage", "recompute.layers=[8]"],
    ["recompute=per_stage", "recompute.layers=[2,2,1,0]", *STAGES], ["checkpoint=steps", "checkpoint.save_steps=500"], ["checkpoint=minutes"],
    ["checkpoint=off"], ["dataset.tokenizer=bytes"], ["dataset=mindrecord", "dataset.files=[a.mindrecord]", "dataset.columns=[input_ids]"],
    ["dataset.batch_size=16"], ["amp.loss_scale=fixed", "amp.loss_scale_value=128"], ["amp.dtype=float16", "amp.loss_scale_window=50"],
    [*PROFILE], ["memory.max_device_memory=50GB"], ["memory.headroom=0.2"], ["monitor=full"], ["watch.loss_spike=warn", "watch.window=50"],
    ["model.num_kv_heads=8"], ["model.tie_word_embeddings=true"], ["model.num_layers=61"], ["model.offset=[1,0,0,-1]", *STAGES], ["optimizer=came"],
    ["optimizer=sgd"], ["evaluate=off"], ["device.jit_level=O1"], ["device.parallel_speed_up=a.json"], ["run.imports=[parts]", "schedule.type=Mine"],
)  # fmt: skip


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(BASES), st.lists(st.sampled_from(MORE), max_size=3), st.sampled_from([MACHINE, NPUS]))
def test_what_check_accepts_it_accepts_rehearsed(base: tuple[str, ...], more: list[list[str]], machine: object) -> None:
    words = (*base, *(word for each in more for word in each))
    try:
        run = quick(*words)
    except UserError:
        return
    if not any(found.severity == "error" for found in run.check()):
        assert refused(words, machine) == [], words


@pytest.mark.parametrize("word", ["model.offset=[a,b]", "model.offset=[[1],[1,x]]", "recompute.layers=[a]", "model.num_layers=1"])
def test_what_check_refuses_is_refused_rehearsed_without_a_traceback(word: str) -> None:
    assert refused((*LARGE, *STAGES, "recompute=per_stage", word), NPUS)
