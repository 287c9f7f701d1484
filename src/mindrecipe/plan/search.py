"""The best layouts of a model on so many devices: exact and complete within the stated space, by branch and bound.

Bounds prune: weights and optimizer state alone (no layout of a mesh holds less); the matrix multiplications with the bubble alone, and
all that the first stage does without communication (no step is shorter). A layout that is left is priced in full. Every layout of the
space is counted: as ranked, or in the class it fell out with.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections import Counter
from dataclasses import dataclass

from mindrecipe.plan import clock, memory, stages
from mindrecipe.plan.calibration import Efficiency, efficiency_of
from mindrecipe.plan.clock import Time
from mindrecipe.plan.flops import attention_per_layer, layer_matmul
from mindrecipe.plan.job import CannotPrice, Job, Layout, Recompute
from mindrecipe.plan.space import Space, meshes, why_not, why_not_inner

NO_ROOM = "weights and optimizer state alone exceed the device"
TOO_MUCH = "does not fit with the headroom"
SLOWER = "slower than the best even without communication"
PRICED = "priced in full, slower than the best"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One layout that fits: the job, its step, the bytes of its fullest stage."""

    job: Job
    time: Time
    peak: float


@dataclass(frozen=True, slots=True)
class Found:
    """``best`` first; ``considered`` layouts in all, ``fell_out`` by class; their sum and len(best) are ``considered``."""

    best: tuple[Candidate, ...]
    considered: int
    fell_out: Counter[str]
    smallest: tuple[Job, float] | None


def search(base: Job, space: Space, top: int = 5, software: str = "mindformers") -> Found:
    """The ``top`` layouts of highest tokens/s that leave ``space.headroom`` free; CannotPrice where the device can't be planned for."""
    efficiency = efficiency_of(base, software)
    room = (1 - space.headroom) * (base.device.memory_gb or 0) * memory.GIB
    inner = space.inner()
    fell: Counter[str] = Counter()
    considered = 0
    kept: list[tuple[float, int, Candidate]] = []
    smallest: tuple[Job, float] | None = None
    number = 0
    for mesh in sorted(meshes(space), key=lambda mesh: _promise(base, space, mesh)):
        considered += len(inner)
        reason = why_not(base.dims, space, mesh)
        if reason:
            fell[reason] += len(inner)
            continue
        static: dict[bool, float] = {}
        for micro, policy, sharded, chunk in inner:
            reason = why_not_inner(base.dims, space, mesh, micro, sharded, chunk)
            if reason:
                fell[reason] += 1
                continue
            job = laid_out(base, space, mesh, micro, policy, sharded, chunk)
            if sharded not in static:
                static[sharded] = least(job)
            if static[sharded] > room:
                fell[NO_ROOM] += 1
                if smallest is None or static[sharded] < smallest[1]:
                    smallest = (job, static[sharded])
                continue
            if len(kept) == top and (shortest(job, efficiency) > -kept[0][0] or of_first_stage(job, efficiency) > -kept[0][0]):
                fell[SLOWER] += 1
                continue
            # how much too large is of interest only as long as nothing fits
            peak = fullest(job, enough=room if kept else math.inf)
            if peak > room:
                fell[TOO_MUCH] += 1
                if smallest is None or peak < smallest[1]:
                    smallest = (job, peak)
                continue
            time = clock.price(job, efficiency)
            number += 1
            entry = (-time.step, -number, Candidate(job, time, peak))
            if len(kept) < top:
                heapq.heappush(kept, entry)
            else:
                heapq.heappushpop(kept, entry)
                fell[PRICED] += 1
    best = tuple(entry[2] for entry in sorted(kept, reverse=True))
    return Found(best, considered, fell, smallest)


def laid_out(base: Job, space: Space, mesh: tuple[int, int, int, int], micro: int, policy: str, sharded: bool, chunk: int) -> Job:
    """``base`` with one layout of the space."""
    data, t, p, cp = mesh
    spread = data * cp * (1 if base.layout.expert_tensor else t)
    layout = Layout(
        data_parallel=data,
        tensor_parallel=t,
        context_parallel=cp,
        pipeline=p,
        expert_parallel=base.layout.expert_parallel if base.dims.experts and spread % base.layout.expert_parallel == 0 else 1,
        sequence_parallel=t > 1 and space.pinned.get("sequence_parallel", True),
        micro_batch=micro,
        micro_batches=space.global_batch // data // micro,
        interleave=chunk,
        sharding="optimizer" if sharded else "none",
        split_vocabulary=t > 1,
        table_over_context=base.layout.table_over_context,
        expert_tensor=base.layout.expert_tensor,
    )
    return dataclasses.replace(base, layout=layout, recompute=Recompute(policy="none" if policy in space.skipped else policy))  # type: ignore[arg-type]


def least(job: Job) -> float:
    """Bytes that no choice beside mesh and optimizer sharding changes: states of the fullest stage."""
    return max(sum(memory.static(job, stage)[1].values()) for stage in fullest_stages(job))


def fullest(job: Job, enough: float = math.inf) -> float:
    """Bytes of the fullest stage, or of the first that needs more than ``enough``."""
    layers, most = memory.layer_kinds(job), 0.0
    for stage in fullest_stages(job):
        most = max(most, memory.of_stage(job, stage, layers).total)
        if most > enough:
            break
    return most


def fullest_stages(job: Job) -> list[int]:
    """Stages one of which is the fullest: first and last, which hold the vocabulary, and the first of those with equally many layers."""
    counts = stages.counts(job)
    first: dict[tuple[int, int], int] = {}
    for stage in range(1, len(counts) - 1):
        first.setdefault(counts[stage], stage)
    return sorted({0, len(counts) - 1, *first.values()})


def shortest(job: Job, efficiency: Efficiency) -> float:
    """Seconds that no step of this layout falls below: matrix multiplications and attention core of its mean stage, with the bubble."""
    return _matrix_seconds(job, efficiency) * (1 + (job.layout.pipeline - 1) / job.layout.interleave / job.layout.micro_batches)


def of_first_stage(job: Job, efficiency: Efficiency) -> float:
    """The same with memory traffic, of the first stage: what it does without communication."""
    layout = job.layout
    return clock.stage_seconds(job, efficiency, 0) * (layout.micro_batches + (layout.pipeline - 1) / layout.interleave)


def _matrix_seconds(job: Job, efficiency: Efficiency) -> float:
    d, device = job.dims, job.device
    peak = (device.peak_tflops(job.compute) or 0) * clock.TERA
    passes = 4 if job.recompute.policy == "full" else 3
    core = 4 if job.recompute.policy in ("full", "attention") else 3
    moe = max(0, d.layers - d.dense_layers) if d.experts else 0
    matrix = passes * ((d.layers - moe) * layer_matmul(d, False) + (moe * layer_matmul(d, True) if moe else 0))
    attention = core * d.layers * attention_per_layer(d) * (0.5 if d.flash else 1.0)
    tokens = job.tokens_per_step / job.layout.devices
    return tokens * (matrix / efficiency.matmul + attention / efficiency.attention) / peak


def _promise(base: Job, space: Space, mesh: tuple[int, int, int, int]) -> float:
    """Order in which meshes are looked at: small bubbles and tensor parallelism inside the node first, so that the bounds bite early."""
    data, t, p, _ = mesh
    each = max(1, space.global_batch // data)
    return (1 + (p - 1) / each) * (1 + 0.02 * t) * (1.0 if t <= base.device.devices_per_node else 4.0)


def require_layout(found: Found, base: Job) -> Candidate:
    """The best layout; CannotPrice that says by how much the smallest misses where none fits."""
    if found.best:
        return found.best[0]
    if found.smallest is None:
        raise CannotPrice("no layout of the space can be laid out: " + "; ".join(found.fell_out))
    job, size = found.smallest
    raise CannotPrice(
        f"nothing fits: the smallest layout still needs {size / memory.GIB:.0f} GiB of {base.device.memory_gb:.0f} "
        f"(dp {job.layout.data_parallel} x tp {job.layout.tensor_parallel} x pp {job.layout.pipeline} x cp {job.layout.context_parallel})"
    )
