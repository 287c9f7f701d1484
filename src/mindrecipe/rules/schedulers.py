"""Rules of pipeline schedulers other than 1F1B."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.mesh import divisor_near, is_refused
from mindrecipe.rules.registry import LARGE, STAGES, Problem, rule


@rule(
    "mesh.zero_bubble",
    "error",
    "its V takes two chunks a stage and two micro batches a stage: mindformers refuses anything else when the model is built",
    outcome="stops",
    source="mindformers parallel_core/transformer_config.py __post_init__",
    reads=(
        "parallel: context_parallel data_parallel micro_batch_num mode model_parallel pipeline_interleave pipeline_scheduler pipeline_stage"
    ),
    fails=[
        f"{STAGES} parallel.pipeline_scheduler=zero_bubble_v",
        f"{STAGES} parallel.pipeline_scheduler=zero_bubble_v parallel.micro_batch_num=8",
        f"{STAGES} parallel.pipeline_scheduler=zero_bubble_v parallel.pipeline_interleave=2",
    ],
    passes=[
        f"{LARGE} parallel.pipeline_stage=4 parallel.pipeline_scheduler=zero_bubble_v parallel.pipeline_interleave=2 "
        "parallel.micro_batch_num=8",
        f"{STAGES} parallel.pipeline_scheduler=zero_bubble_v parallel.micro_batch_num=8 parallel.pipeline_interleave=2",
    ],
)
def zero_bubble(d: Derived) -> Iterator[Problem]:
    """zero_bubble_v without two chunks a stage and two micro batches a stage."""
    p = d.config.parallel
    if p.pipeline_scheduler != "zero_bubble_v" or p.mode not in SHARDED or p.pipeline_stage == 1 or is_refused(d):
        return
    needed = {"pipeline_interleave": 2, "micro_batch_num": max(p.micro_batch_num, 2 * p.pipeline_stage)}
    wrong = {key: size for key, size in needed.items() if getattr(p, key) != size}
    if wrong:
        given = " and ".join(f"{key}={getattr(p, key)}" for key in wrong)
        yield Problem(
            f"parallel.pipeline_scheduler=zero_bubble_v with {given}",
            ("parallel.pipeline_scheduler", *(f"parallel.{key}" for key in wrong)),
            " ".join(f"parallel.{key}={size}" for key, size in wrong.items()),
        )


@rule(
    "mesh.sequence_pipeline",
    "error",
    "mindformers refuses it when the trainer is built",
    outcome="stops",
    source="mindformers tools/check_rules.py _check_parallel; mindformers trainer/base_trainer.py",
    reads="model: seq_length; parallel: mode pipeline_scheduler seq_split_num; recompute: layers policy",
    fails=[
        f"{STAGES} parallel.seq_split_num=2 recompute=full",
        f"{STAGES} parallel.seq_split_num=2 recompute=per_stage recompute.layers=[1,1,1,1]",
        f"{STAGES} parallel.pipeline_scheduler=seqvpp",
        f"{STAGES} parallel.seq_split_num=3",
    ],
    passes=[
        f"{STAGES} parallel.seq_split_num=2 recompute=selective",
        f"{STAGES} parallel.seq_split_num=2 recompute=selective recompute.layers=null",
        f"{STAGES} parallel.pipeline_scheduler=seqpipe",
    ],
)
def sequence_pipeline(d: Derived) -> Iterator[Problem]:
    """A sequence pipeline does not divide the sequence, recomputes whole layers, or has one piece."""
    p, m = d.config.parallel, d.config.model
    if p.mode not in SHARDED:
        return
    if m.seq_length % p.seq_split_num:
        yield Problem(
            f"model.seq_length={m.seq_length} is not a multiple of seq_split_num={p.seq_split_num}",
            ("parallel.seq_split_num", "model.seq_length"),
            f"parallel.seq_split_num={divisor_near(m.seq_length, p.seq_split_num)}",
        )
    if p.seq_split_num > 1 and d.config.recompute.policy in ("full", "per_stage"):
        yield Problem(
            f"parallel.seq_split_num={p.seq_split_num} with recompute={d.config.recompute.policy}",
            ("parallel.seq_split_num", "recompute.policy"),
            "recompute=selective" + (" recompute.layers=null" if d.config.recompute.layers is not None else ""),
        )
    if p.pipeline_scheduler == "seqvpp" and p.seq_split_num == 1:
        yield Problem(
            "parallel.pipeline_scheduler=seqvpp with seq_split_num=1",
            ("parallel.pipeline_scheduler",),
            "parallel.pipeline_scheduler=seqpipe",
        )
