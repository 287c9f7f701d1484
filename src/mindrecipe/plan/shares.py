"""Which parameters on a rank the other devices share the states of: ZeRO's stages, and MindSpore's whole rows.

MindSpore's parallel optimizer cuts the rows of a weight evenly over all devices that hold the same slice of it, or not at all: in a dry run
over 1,024 replicas weights of [2048, 2048] became [2, 2048], and those of [5632, 2048] and [32000, 2048] stayed whole, with their moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mindrecipe.plan import parameters, stages
from mindrecipe.plan.job import Job

#: bytes below which a weight stays whole (parallel_optimizer_threshold, lower/parallel.py)
THRESHOLD = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters on a rank, by who shares their states: ``common`` the replicas, ``experts`` the devices with the same experts, ``spread``
    all devices of the stage (what tensor parallelism does not split), ``whole`` nobody."""

    common: float = 0.0
    experts: float = 0.0
    spread: float = 0.0
    whole: float = 0.0

    def __add__(self, other: Held) -> Held:
        return Held(self.common + other.common, self.experts + other.experts, self.spread + other.spread, self.whole + other.whole)

    def __mul__(self, times: int) -> Held:
        return Held(self.common * times, self.experts * times, self.spread * times, self.whole * times)

    @property
    def total(self) -> float:
        return self.common + self.experts + self.spread + self.whole


def kept(job: Job, held: Held, level: int) -> float:
    """What a rank keeps of ``held`` where ZeRO's ``level`` (1 optimizer, 2 gradients, 3 weights) shares it."""
    lay = job.layout
    if {"none": 0, "optimizer": 1, "gradients": 2, "full": 3}[lay.sharding] < level:
        return held.total
    return held.common / lay.shards + held.experts / lay.expert_shards + held.spread / lay.spread_shards + held.whole


def of_layer(job: Job, moe: bool) -> Held:
    """One layer, with experts or dense."""
    lay, found = job.layout, parameters.layer(job.dims, moe)
    experts, spread = found.experts_per_rank(lay), found.spread(lay)
    common = found.per_rank(lay) - experts - spread
    rest = {"common": 0.0, "experts": 0.0, "spread": 0.0}
    if _by_rows(job):
        over = {"common": lay.shards, "experts": lay.expert_shards, "spread": lay.spread_shards}
        for kind, rows, columns in _matrices(job, moe):
            if rows % over[kind] or rows * columns * job.states.weight < THRESHOLD:
                rest[kind] += rows * columns
    return Held(common - rest["common"], experts - rest["experts"], spread - rest["spread"], sum(rest.values()))


def of_table(job: Job, stage: int) -> Held:
    """The embedding on a rank of ``stage``."""
    count = parameters.embedding(job.dims).per_rank(job.layout) if stage == 0 else 0.0
    uneven = _by_rows(job) and job.dims.vocab / job.layout.table_shards % job.layout.shards
    return Held(whole=count) if job.states.whole_embedding or uneven else Held(count)


def of_stage(job: Job, stage: int) -> Held:
    """The layers and the head of ``stage``, without the embedding."""
    dense, moe = stages.counts(job)[stage]
    held = Held()
    if dense:
        held += of_layer(job, False) * dense
    if moe:
        held += of_layer(job, True) * moe
    return held + _head(job, stage)


def largest(job: Job, stage: int) -> float:
    """Elements that a rank of ``stage`` updates of its largest matrix, the embedding aside."""
    d, lay = job.dims, job.layout
    tensor = lay.tensor_parallel
    found = [(d.feed_forward / tensor, d.hidden, lay.shards)]
    if d.experts:
        rows = d.experts * d.hidden / lay.expert_parallel / (tensor if lay.expert_tensor else 1)
        found.append((rows, (d.feed_forward_matrices - 1) * d.expert_width, lay.shards))
    if stage == parameters.last_stage(lay):
        found.append((parameters.head(d).vocabulary / d.hidden / (tensor if lay.split_vocabulary else 1), d.hidden, lay.shards))
    share = lay.sharding != "none"
    return max(rows * columns / (over if share and not (_by_rows(job) and rows % over) else 1) for rows, columns, over in found)


def _head(job: Job, stage: int) -> Held:
    if stage != parameters.last_stage(job.layout):
        return Held()
    d, lay = job.dims, job.layout
    found = parameters.head(d)
    if d.tied and stage > 0:
        found += parameters.Parameters(vocabulary=d.vocab * d.hidden)
    spread = found.spread(lay)
    count = found.per_rank(lay) - spread
    if not _by_rows(job):
        return Held(common=count, spread=spread)
    rows = d.vocab / (lay.tensor_parallel if lay.split_vocabulary else 1)
    vectors = float(found.copied)  # the final norm
    matrix = count + spread - vectors
    return Held(whole=matrix + vectors) if rows % lay.shards else Held(common=matrix, whole=vectors)


def _by_rows(job: Job) -> bool:
    """Whether states are shared by rows of each weight; other frameworks share them as one flat buffer."""
    return job.states.weights_follow and job.layout.sharding != "none"


def _matrices(job: Job, moe: bool) -> Iterator[tuple[str, float, float]]:
    """(who shares it, rows, columns) of each matrix of a layer as a rank holds it: [out, in], as mindformers' Linear has them."""
    d, lay, hidden = job.dims, job.layout, job.dims.hidden
    t = lay.tensor_parallel
    query, key, _ = d.widths
    whole = "common" if lay.expert_tensor else "spread"
    if d.latent:
        latent = d.latent
        keys = latent.key_rank + latent.position
        if latent.concatenated:
            yield whole, (latent.query_rank or query) + keys, hidden
        else:
            yield whole, latent.query_rank, hidden
            yield whole, keys, hidden
        if latent.query_rank or not latent.concatenated:
            yield "common", query / t, latent.query_rank or hidden
        yield "common", d.heads * (latent.content + latent.value) / t, latent.key_rank
        yield "common", hidden, d.heads * latent.value / t
    else:
        # legacy models have a matrix for queries, keys and values each, mcore's one for all
        yield from (
            (("common", query / t, hidden), *[("common", key / t, hidden)] * 2)
            if lay.expert_tensor
            else [("common", (query + 2 * key) / t, hidden)]
        )
        yield "common", hidden, query / t
    if d.norms:
        yield from [(whole, hidden, 1.0)] * 2
        yield whole, d.norms - 2 * hidden, 1.0
    gates = d.feed_forward_matrices - 1
    if not moe:
        # the gate beside the other matrix: one after the other in legacy models, one matrix in mcore's
        yield from (
            [("common", d.feed_forward / t, hidden)] * gates if lay.expert_tensor else [("common", gates * d.feed_forward / t, hidden)]
        )
        yield "common", hidden, d.feed_forward / t
        return
    experts = d.experts / lay.expert_parallel / (t if lay.expert_tensor else 1)
    yield "experts", experts * hidden, gates * d.expert_width
    yield "experts", experts * d.expert_width, hidden
    if d.router:
        yield whole, d.experts, hidden
    if d.shared_width:
        yield whole, gates * d.shared_width, hidden
        yield whole, hidden, d.shared_width
