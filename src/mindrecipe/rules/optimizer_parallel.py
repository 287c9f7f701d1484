"""Rules of optimizer parallelism: how optimizer states are spread over the replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.mesh import divisor_near, is_refused
from mindrecipe.rules.registry import LARGE, Problem, rule


@rule(
    "mesh.optimizer_shards",
    "error",
    "MindSpore shards a weight over whole groups of replicas, and over all of them where the size can't be had",
    outcome="ignored",
    source="mindspore context.py set_auto_parallel_context, optimizer_weight_shard_size ('will not take effect')",
    reads="parallel: data_parallel optimizer_parallel optimizer_weight_shard_size",
    fails=[
        f"{LARGE} parallel.optimizer_weight_shard_size=3",
        f"{LARGE} parallel.optimizer_weight_shard_size=2 parallel.optimizer_parallel=false",
    ],
    passes=[
        f"{LARGE} parallel.optimizer_weight_shard_size=4",
        f"{LARGE} parallel.optimizer_weight_shard_size=2 parallel.optimizer_parallel=true",
    ],
)
def optimizer_shards(d: Derived) -> Iterator[Problem]:
    """The group a weight is sharded over does not divide the replicas."""
    p = d.config.parallel
    size = p.optimizer_weight_shard_size
    if size is None:
        return
    if not p.optimizer_parallel:
        yield Problem(
            "parallel.optimizer_weight_shard_size has no effect without optimizer_parallel",
            ("parallel.optimizer_weight_shard_size",),
            "parallel.optimizer_parallel=true",
        )
    elif size == 1:
        yield Problem(
            "parallel.optimizer_weight_shard_size=1 has no effect: MindSpore takes sizes above 1, and shards over all replicas",
            ("parallel.optimizer_weight_shard_size",),
            "parallel.optimizer_parallel=false parallel.optimizer_weight_shard_size=null",
        )
    elif (p.data_parallel or 1) % size:
        replicas = p.data_parallel or 1
        yield Problem(
            f"parallel.optimizer_weight_shard_size={size} does not divide data_parallel={replicas}: all {replicas} share a weight",
            ("parallel.optimizer_weight_shard_size",),
            f"parallel.optimizer_weight_shard_size={max(2, divisor_near(replicas, size)) if replicas > 1 else 'null'}",
            # more than there are: all of them is what it asks for
            "advice" if size > replicas else None,
        )


@rule(
    "mesh.optimizer_rest",
    "advice",
    "MindSpore shards a weight's rows evenly or not at all: its optimizer states stay whole on every replica",
    outcome="costs",
    source="mindformers tools/check_rules.py _check_parallel (vocab_size and hidden_size against device_num)",
    reads=(
        "model: hidden_size vocab_size; parallel: context_parallel data_parallel mode model_parallel optimizer_parallel "
        "optimizer_weight_shard_size pipeline_stage vocab_emb_dp"
    ),
    fails=[f"{LARGE} model.vocab_size=32001", f"{LARGE} model.hidden_size=4100 model.num_heads=2"],
    passes=[LARGE, f"{LARGE} parallel.optimizer_parallel=false model.vocab_size=32001"],
)
def optimizer_rest(d: Derived) -> Iterator[Problem]:
    """A weight's rows do not divide over the replicas that share it."""
    p, m = d.config.parallel, d.config.model
    replicas, wanted = p.data_parallel or 1, p.optimizer_weight_shard_size
    group = wanted if wanted and replicas % wanted == 0 else replicas
    if not p.optimizer_parallel or p.mode not in SHARDED or group == 1 or is_refused(d):
        return
    split = 1 if p.vocab_emb_dp or m.vocab_size % p.model_parallel else p.model_parallel
    for key, rows in (("vocab_size", m.vocab_size // split), ("hidden_size", m.hidden_size)):
        if rows % group:
            size = getattr(m, key)
            yield Problem(
                f"model.{key}={size}: {rows} rows do not divide over {group} replicas",
                (f"model.{key}", "parallel.optimizer_parallel", "parallel.data_parallel"),
                f"model.{key}={math.ceil(rows / group) * group * (split if key == 'vocab_size' else 1)}",
            )
