"""Which layers a pipeline stage holds, and how many of its activations live at once under each schedule.

1F1B: stage i of p keeps p - i micro batches (Narayanan et al. 2019, PipeDream-Flush); interleaved with v chunks it
keeps 2 (p - i - 1) + (v - 1) p + 1 chunks (Narayanan et al. 2021, arXiv 2104.04473, section 2.2, and Megatron-LM's schedules.py: warm-up
micro batches); GPipe all; the V schedule of zero-bubble p on each stage (Qi et al. 2024, arXiv 2405.15362).
"""

from __future__ import annotations

import operator
from functools import lru_cache

from mindrecipe.plan.job import CannotPrice, Job


def rows(job: Job) -> tuple[tuple[int, ...], ...]:
    """Layers of each stage, a row for each interleaved chunk. What does not divide goes to the middle stages."""
    layout, dims = job.layout, job.dims
    if layout.layers_of_stages is not None:
        given = layout.layers_of_stages
        if sum(map(sum, given)) != dims.layers or any(len(row) != layout.pipeline for row in given) or min(map(min, given)) < 0:
            told = "; ".join(", ".join(map(str, row)) for row in given)
            raise CannotPrice(
                f"the stages hold {told} layers (model.offset), which is no split of {dims.layers} over {layout.pipeline} stages"
            )
        return given
    return even(dims.layers, layout.pipeline, chunks(job))


@lru_cache(maxsize=4096)
def even(layers: int, stages: int, count: int) -> tuple[tuple[int, ...], ...]:
    """As even a split as there is; first and last stage, which hold the vocabulary, get the extra layers last."""
    each, rest = divmod(layers, stages * count)
    order = [*range(1, stages - 1), 0, stages - 1] if stages > 2 else [*range(stages)]
    split = []
    for _ in range(count):
        extra = set(order[: min(rest, stages)])
        split.append(tuple(each + (stage in extra) for stage in range(stages)))
        rest -= len(extra)
    return tuple(split)


def chunks(job: Job) -> int:
    """Model chunks of a stage: the V of zero-bubble has two."""
    return max(2, job.layout.interleave) if job.layout.schedule == "zero_bubble_v" and job.layout.pipeline > 1 else job.layout.interleave


def layers_of(job: Job, stage: int) -> list[int]:
    """Indices of the layers that ``stage`` holds, in the order they are computed."""
    found: list[int] = []
    first = 0
    for chunk, row in enumerate(rows(job)):
        # the V of zero-bubble comes back: its second chunk starts on the last stage
        back = job.layout.schedule == "zero_bubble_v" and chunk % 2 == 1
        start = first + sum(row[stage + 1 :] if back else row[:stage])
        found += range(start, start + row[stage])
        first += sum(row)
    return found


def counts(job: Job) -> tuple[tuple[int, int], ...]:
    """(dense layers, layers with experts) of each stage: all that memory and time need to know of which layers it holds."""
    d = job.dims
    if not d.experts:
        return _totals(rows(job))
    found = []
    for stage in range(job.layout.pipeline):
        indices = layers_of(job, stage)
        dense = sum(index < d.dense_layers for index in indices)
        found.append((dense, len(indices) - dense))
    return tuple(found)


@lru_cache(maxsize=4096)
def _totals(split: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int], ...]:
    return tuple((sum(column), 0) for column in zip(*split, strict=True))


def alive(job: Job, stage: int) -> list[int]:
    """Micro batches whose activations live at once at the peak of ``stage``, of each of its chunks."""
    layout = job.layout
    stages, micro, count = layout.pipeline, layout.micro_batches, len(rows(job))
    if stages == 1:
        return [1] * count
    if layout.schedule == "gpipe":
        return [micro] * count
    if layout.schedule == "zero_bubble_v":
        return [min(micro, stages)] * count
    if count == 1:
        return [min(micro, stages - stage)]
    left = min(micro * count, 2 * (stages - stage - 1) + (count - 1) * stages + 1)
    # chunks come in groups of `stages` micro batches, the first chunk first: the early chunks are the ones that wait
    found, group = [0] * count, 0
    while left > 0:
        take = min(stages, left)
        found[group % count] += take
        left, group = left - take, group + 1
    return found


def in_flight(job: Job, stage: int) -> float:
    """The same on average over the layers of the stage."""
    held = [row[stage] for row in rows(job)]
    kept = sum(map(operator.mul, alive(job, stage), held))
    return kept / sum(held) if any(held) else float(min(job.layout.micro_batches, job.layout.pipeline - stage))
