"""What the update of the weights needs where its operators are nodes of the training graph, as MindSpore's are.

mindformers' step cells (wrapper.py) and AdamW (core/optim/adamw.py) are compiled into the graph of the step, and MindSpore orders its
operators by what they depend on. Read from the memory tracker of dry runs (MS_ALLOC_CONF=memory_tracker:True), S being the fp32 bytes of
what a rank updates and L those of its largest parameter:

* The decayed weights, ``next_param``, depend on nothing but weights: they are computed, S, once a weight was read for the last time: in
  a pipeline before the last backward passes; on its last stage, and without accumulation, as the half copies go. The embedding's, read
  once, are there at the loss already where nothing is accumulated.
* After the last backward pass the clipped gradients, S, exist with the decayed weights; the largest parameter then has three
  intermediate products beside, and all parameters the first product of a moment before the last of the largest is done:
  2 S + 3 L and 3 S + L. On the last of several stages one parameter is done after the other: 2 S and a matrix of a layer, in the end 4 L.
* Without accumulation all gradients, in fp32 before they are reduced, live with their reduced copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindrecipe.plan.job import Job

FP32 = 4


@dataclass(frozen=True, slots=True)
class Update:
    """Bytes: ``decayed`` weights that live in the last backward passes, ``decayed_first`` those at the loss, ``most`` of the update."""

    decayed: float
    decayed_first: float
    most: float


def of_stage(job: Job, *, every: float, updated: float, table: float, largest: float, ends: bool) -> Update:
    """The update on a rank that holds ``every`` parameter, updates ``updated`` of them, ``table`` of them the embedding's.

    ``largest``: elements of the largest matrix beside it, as the rank holds it. ``ends``: the last of several stages.
    """
    s, first, most = FP32 * updated, FP32 * table, FP32 * max(largest, table)
    step = max(2 * s + 3 * most, 3 * s + most) if not ends else max(2 * s + FP32 * largest, 4 * most)
    if job.states.gradients_live:
        return Update(0.0 if ends else s, 0.0, step)
    reduced = s if job.layout.data_parallel * job.layout.context_parallel > 1 else 0.0
    return Update(first, first, max(step, FP32 * every + reduced + first))
