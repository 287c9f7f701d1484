"""Advice from practice as checks with reasons: what a layout that fits may still get wrong.

Sources: tensor parallelism within the node, micro batches over stages (Narayanan et al. 2021, takeaways 1 and 2), attention first
(Korthikanti et al. 2022), headroom and uneven stages (mindformers documentation, performance optimization and memory FAQ).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindrecipe.plan import activations, balance, clock, memory, stages
from mindrecipe.plan.calibration import Efficiency
from mindrecipe.plan.job import Job
from mindrecipe.plan.memory import Memory
from mindrecipe.plan.space import divisors

HEADROOM = (0.10, 0.20)
MICRO_BATCHES_A_STAGE = 4
#: share of a step that another split of the layers must save to be spoken of
WORTH = 0.01
#: share of the states of a rank that another size of the groups must save
WORTH_BYTES = 0.05


@dataclass(frozen=True, slots=True)
class Advice:
    """``name`` of the check, ``good`` or not, ``what`` was found and ``why`` it matters; ``mend`` as overrides, "" for none."""

    name: str
    good: bool
    what: str
    why: str
    mend: str = ""


def advise(job: Job, held: Memory, efficiency: Efficiency | None) -> list[Advice]:
    """Every check that concerns the job, those that fail first; without an ``efficiency`` those that compare times are left out."""
    found = [
        _tensor_parallel(job),
        _headroom(job, held, efficiency),
        _micro_batches(job),
        _recompute(job, held, efficiency),
        _stages(job, held, efficiency),
        _sharding(job),
    ]
    return sorted((advice for advice in found if advice), key=lambda advice: advice.good)


def _tensor_parallel(job: Job) -> Advice | None:
    t, node = job.layout.tensor_parallel, job.device.devices_per_node
    if t == 1:
        return None
    good = t <= node
    return Advice(
        "tensor parallel inside the node",
        good,
        f"tensor parallelism of {t} on nodes of {node}",
        "it communicates four times a layer: links between nodes are several times slower than those within",
        "" if good else f"parallel.model_parallel={node} parallel.data_parallel=null",
    )


def _headroom(job: Job, held: Memory, efficiency: Efficiency | None) -> Advice:
    low, high = HEADROOM
    left = held.headroom
    good = low <= left <= high
    if left < 0:
        what = f"stage {held.peak.stage} needs {held.peak.total / memory.GIB:.1f} GiB of {held.capacity / memory.GIB:.0f}"
    else:
        what = f"{100 * left:.0f} % of the device is left"
    why = (
        "communication buffers, workspace of operators and fragments come on top of what is planned"
        if left < high
        else "more micro batch, less recomputation or fewer ways of splitting would use it for speed"
    )
    return Advice("10 to 20 % of HBM free", good, what, why, "" if left >= low else _makes_room(job, held, efficiency))


def _makes_room(job: Job, held: Memory, efficiency: Efficiency | None) -> str:
    """The fewest layers to compute again such that it fits; another layout where that is not enough."""
    better = balance.partly(job, efficiency, _room(held)) if efficiency and job.layout.pipeline > 1 else None
    if better is None:
        return "parallel=planned amp=O2" if job.compute == "float32" else "parallel=planned"
    return f"{per_stage(better.job)}   # {better.step:.2f} s a step"


def _micro_batches(job: Job) -> Advice | None:
    p, micro = job.layout.pipeline, job.layout.micro_batches
    if p == 1:
        return None
    good = micro >= MICRO_BATCHES_A_STAGE * p
    bubble = (p - 1) / job.layout.interleave / micro
    return Advice(
        "micro batches at least 4 x stages",
        good,
        f"{micro} micro batch{'' if micro == 1 else 'es'} for {p} stages: {100 * bubble / (1 + bubble):.0f} % of the step is bubble",
        "stages wait for each other (p-1)/(v m) of the time",
        "" if good else f"parallel.micro_batch_num={MICRO_BATCHES_A_STAGE * p}",
    )


def _recompute(job: Job, held: Memory, efficiency: Efficiency | None) -> Advice | None:
    now = _again(job)
    if not any(now):
        return None
    if not job.dims.flash:
        return Advice(
            "recompute attention before everything",
            False,
            "whole layers are computed again, and the scores of attention are kept nowhere else",
            "the scores are most of the memory and a small share of the computation",
            "recompute=attention" + (" recompute.layers=null" if job.recompute.full_layers is not None else ""),
        )
    better = balance.partly(job, efficiency, _room(held)) if efficiency else None
    fewer = better.job.recompute.full_layers if better else None
    good = better is None or sum(fewer or ()) >= sum(now)
    return Advice(
        "recompute no more than needed",
        good,
        "the memory that recomputation saves is needed"
        if better is None or good
        else f"{sum(fewer or ())} of {sum(now)} layers computed again are enough for 10 % of headroom: {better.step:.2f} s a step",
        "computing a layer again costs a third of its time",
        "" if better is None or good else per_stage(better.job),
    )


def _again(job: Job) -> list[int]:
    """Layers of each stage that are computed again whole."""
    return [activations.full_layers(job, stage, sum(counts)) for stage, counts in enumerate(stages.counts(job))]


def per_stage(job: Job) -> str:
    """The layers that a job computes again, as overrides: patterns are for other policies."""
    return f"recompute=per_stage 'recompute.layers={list(job.recompute.full_layers or ())}' recompute.patterns=null".replace(", ", ",")


def offset(job: Job) -> str:
    """The layers of a job's stages, as an override."""
    return f"'model.offset={balance.offset_of(job)}'".replace(", ", ",")


def _room(held: Memory) -> float:
    return held.capacity * (1 - HEADROOM[0])


def _stages(job: Job, held: Memory, efficiency: Efficiency | None) -> Advice | None:
    if job.layout.pipeline < 2 or efficiency is None:
        return None
    step, better = clock.price(job, efficiency).step, balance.uneven(job, efficiency, _room(held))
    if held.peak.total > _room(held):  # the alternative is to compute some layers again
        again = balance.partly(job, efficiency, _room(held))
        faster = better is not None and (again is None or better.step < (1 - WORTH) * again.step)
    else:
        faster = better is not None and better.step < (1 - WORTH) * step
    counts = [stage.layers for stage in held.stages]
    return Advice(
        "layers where there is room",
        not faster,
        f"layers of the stages: {_listed(counts)}"
        if better is None or not faster
        else f"layers {_listed(counts)} on the stages take {step:.2f} s a step and {held.peak.total / memory.GIB:.1f} GiB, "
        f"{_listed(list(stages.rows(better.job)[0]))} would take {better.step:.2f} s and {better.peak / memory.GIB:.1f} GiB",
        "the slowest stage sets the pace: the last one computes the loss, the first holds most micro batches",
        offset(better.job) if better is not None and faster else "",
    )


def _listed(counts: list[int]) -> str:
    return ", ".join(map(str, counts))


def _fewer_shards(job: Job) -> tuple[int, float] | None:
    """A size of the groups that share a weight which leaves less on a rank than all replicas do, and the bytes it saves."""
    if not job.states.weights_follow:
        return None

    def held(size: int | None) -> float:
        fewer = replace(job, layout=replace(job.layout, shard_size=size))
        return max(sum(memory.static(fewer, stage)[1].values()) for stage in {0, job.layout.pipeline - 1})

    now = held(job.layout.shard_size)
    best = min(((held(size), -size) for size in divisors(job.layout.data_parallel)[1:]), default=None)
    return (-best[1], now - best[0]) if best and best[0] < (1 - WORTH_BYTES) * now else None


def _sharding(job: Job) -> Advice | None:
    replicas = job.layout.data_parallel * job.layout.context_parallel
    if replicas == 1:
        return None
    good = job.layout.sharding != "none"
    better = _fewer_shards(job) if good else None
    if better:
        size, saved = better
        return Advice(
            "optimizer states sharded over the replicas",
            False,
            f"weights whose rows do not divide over {job.layout.shards} replicas stay whole: "
            f"groups of {size} hold {saved / memory.GIB:.1f} GiB less",
            "MindSpore's parallel optimizer cuts the rows of a weight evenly or not at all",
            f"parallel.optimizer_weight_shard_size={size}",
        )
    return Advice(
        "optimizer states sharded over the replicas",
        good,
        f"{job.layout.shards if good else replicas} replicas {'share' if good else 'each hold'} the optimizer states",
        "they are the largest part of the memory and no replica needs another's (ZeRO-1)",
        "" if good else "parallel.optimizer_parallel=true",
    )
