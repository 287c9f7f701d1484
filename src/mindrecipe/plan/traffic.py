"""Collectives: bytes a rank moves and the seconds they take at full link speed on a two-level topology.

Ring costs (Thakur et al. 2005): an all-gather or reduce-scatter of B bytes over n ranks moves B (n-1)/n through each link, an all-reduce
twice that. Ranks lie on the topology with tensor parallelism innermost, then context, data, pipeline. A group that leaves the node
is as slow as the slower of its two levels: within the node, and the share of the node's uplinks it can use.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindrecipe.plan import parameters
from mindrecipe.plan.job import Job

GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Collective:
    """One kind of communication of a step: bytes a rank sends, and seconds at full link speed. ``link``: node or network."""

    name: str
    link: str
    times: float
    bytes: float
    seconds: float


def seconds(job: Job, size: float, group: int, stride: int) -> tuple[float, str]:
    """(seconds, link) of gathering ``size`` bytes in total over ``group`` ranks that are ``stride`` apart."""
    if group == 1 or size == 0:
        return 0.0, "none"
    device = job.device
    node, network = (device.node_bandwidth or 0) * GIGA, (device.network_bandwidth or 0) * GIGA
    inside = max(1, min(group, device.devices_per_node // max(1, stride)))
    nodes = -(-group // inside)
    within = size * (inside - 1) / inside / node
    if nodes == 1:
        return within, "node"
    between = size * (nodes - 1) / nodes / (network * inside)
    return max(within, between), "network"


def collectives(job: Job, layers: int) -> list[Collective]:
    """What one rank of a stage with ``layers`` layers communicates in a step."""
    d, lay, s = job.dims, job.layout, job.states
    t, cp, micro = lay.tensor_parallel, lay.context_parallel, lay.micro_batches
    stream = s.activation * job.tokens * d.hidden
    found = []
    if t > 1:
        # Megatron: two all-reduces (or gather and scatter) forward, two backward; full recomputation repeats the forward ones
        whole = job.recompute.policy == "full"
        times = layers * micro * (6.0 if whole else 4.0)
        each, link = seconds(job, 2 * stream, t, 1)
        found.append(Collective("tensor parallel", link, times, times * 2 * stream * (t - 1) / t, times * each))
    if cp > 1:
        keys = s.activation * job.tokens * cp * sum(d.widths[1:]) / t
        each, link = seconds(job, keys, cp, t)
        times = layers * micro * 3.0
        found.append(Collective("context parallel", link, times, times * keys * (cp - 1) / cp, times * each))
    if lay.expert_parallel > 1 and d.experts:
        routed = s.activation * job.tokens * d.experts_per_token * d.hidden
        each, link = seconds(job, routed, lay.expert_parallel, t)
        times = layers * micro * 6.0
        ep = lay.expert_parallel
        found.append(Collective("expert parallel", link, times, times * routed * (ep - 1) / ep, times * each))
    if lay.pipeline > 1:
        stride = t * cp * lay.data_parallel
        inside = stride < job.device.devices_per_node
        speed = (job.device.node_bandwidth if inside else job.device.network_bandwidth) or 0
        size = stream / t if t > 1 else stream
        times = 2.0 * micro * lay.interleave
        found.append(Collective("pipeline", "node" if inside else "network", times, times * size, times * size / speed / GIGA))
    found += _data_parallel(job)
    return found


def _data_parallel(job: Job) -> list[Collective]:
    lay, s = job.layout, job.states
    group = lay.data_parallel * lay.context_parallel
    if group == 1:
        return []
    held = max(parameters.of_stage(job, stage).per_rank(lay) for stage in {0, lay.pipeline - 1, lay.pipeline // 2})
    stride = lay.tensor_parallel
    if lay.sharding == "full":
        # weights gathered for the forward and again for the backward pass, gradients scattered, each micro batch
        size = (2 * s.activation + s.activation) * held
        each, link = seconds(job, size, group, stride)
        times = float(lay.micro_batches)
        return [Collective("sharded weights", link, times, times * size * (group - 1) / group, times * each)]
    reduced = s.gradient * held * (1 if lay.sharding != "none" else 2)
    gathered = s.activation * held if lay.sharding != "none" else 0.0
    each, link = seconds(job, reduced + gathered, group, stride)
    return [Collective("data parallel", link, 1.0, (reduced + gathered) * (group - 1) / group, each)]
