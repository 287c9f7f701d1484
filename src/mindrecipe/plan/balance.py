"""Which layer to give to which stage, and which layers to compute again: refinements of a layout that the search does not go through.

A pipeline goes at the pace of its slowest stage (Narayanan et al. 2021, section 2.2.1). Layers of a dense model are alike, so that the
split whose slowest stage is fastest comes from one layer a stage, and then layer after layer for the stage that would be the first to
finish with it, among those whose memory has room: moving a layer of any other split ends no earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mindrecipe.plan import clock, memory, stages
from mindrecipe.plan.calibration import Efficiency
from mindrecipe.plan.job import Job, Recompute


@dataclass(frozen=True, slots=True)
class Refined:
    """A layout made better: ``job``, its ``step`` in seconds and the ``peak`` bytes of its fullest stage."""

    job: Job
    step: float
    peak: float


def uneven(job: Job, efficiency: Efficiency, room: float) -> Refined | None:
    """The best split of the layers whose stages need at most ``room`` bytes each; None where there is none to find.

    Not for interleaved or V-shaped pipelines and layers with experts: their stages hold several kinds of layers.
    """
    layout = job.layout
    if layout.pipeline < 2 or layout.interleave > 1 or layout.schedule == "zero_bubble_v" or job.dims.experts or job.recompute.full_layers:
        return None
    kinds = memory.layer_kinds(job)
    held = [1] * layout.pipeline
    seconds = [clock.stage_seconds(_split(job, stage, 1), efficiency, stage) for stage in range(layout.pipeline)]
    each = seconds[0] - clock.stage_seconds(_split(job, 0, 0), efficiency, 0)

    def has_room(stage: int, count: int) -> bool:
        return memory.of_stage(_split(job, stage, count), stage, kinds).total <= room

    if not all(has_room(stage, 1) for stage in range(layout.pipeline)):
        return None
    growing = set(range(layout.pipeline))
    while sum(held) < job.dims.layers:
        if not growing:
            return None
        stage = min(growing, key=lambda stage: (seconds[stage] + each * held[stage], -stage))
        if has_room(stage, held[stage] + 1):
            held[stage] += 1
        else:
            growing.remove(stage)
    return _refined(replace(job, layout=replace(layout, layers_of_stages=(tuple(held),))), efficiency)


def partly(job: Job, efficiency: Efficiency, room: float) -> Refined | None:
    """The fewest layers of each stage computed again so that all need at most ``room`` bytes; None where even all are not enough."""
    if job.layout.interleave > 1 or job.layout.schedule == "zero_bubble_v":
        return None
    counts = [sum(each) for each in stages.counts(job)]
    kinds = memory.layer_kinds(job)
    again = []
    for stage, count in enumerate(counts):
        fewest = next((n for n in range(count + 1) if memory.of_stage(_again(job, stage, n), stage, kinds).total <= room), None)
        if fewest is None:
            return None
        again.append(fewest)
    return _refined(replace(job, recompute=Recompute(full_layers=tuple(again))), efficiency)


def offset_of(job: Job) -> list[Any] | int:
    """model.offset of a job: what each stage, and each of its chunks, has more than its share (rounded down); 0: nothing."""
    split = stages.rows(job)
    each = job.dims.layers // (job.layout.pipeline * len(split))
    found = [[count - each for count in row] for row in split]
    if not any(map(any, found)):
        return 0
    return found if len(found) > 1 else found[0]


def _split(job: Job, stage: int, count: int) -> Job:
    """``job`` with ``count`` layers on ``stage``; the others are somewhere else."""
    row = [0] * job.layout.pipeline
    row[stage - 1] = job.dims.layers - count
    row[stage] = count
    return replace(job, layout=replace(job.layout, layers_of_stages=(tuple(row),)))


def _again(job: Job, stage: int, count: int) -> Job:
    row = [0] * job.layout.pipeline
    row[stage] = count
    return replace(job, recompute=Recompute(full_layers=tuple(row)))


def _refined(job: Job, efficiency: Efficiency) -> Refined:
    return Refined(job, clock.price(job, efficiency).step, memory.price(job).peak.total)
