"""The space of layouts that a search goes through, and what of it can't be laid out at all.

dp x tp x pp x cp over all factorisations of the devices, micro batches of 1, 2, 4, 8 and 16 sequences, recomputation none, selective,
attention and full, optimizer sharding on and off, interleaving by 1, 2, 4 and 8. The global batch is kept. Sequence parallelism is on
with every tensor parallelism: it never costs, as the same bytes are gathered and scattered instead of reduced (Korthikanti et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mindrecipe.plan.job import Dimensions, Policy

MICRO_BATCHES = (1, 2, 4, 8, 16)
POLICIES: tuple[Policy, ...] = ("none", "selective", "attention", "full")
INTERLEAVES = (1, 2, 4, 8)
SHARDINGS = (True, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched. Axes in ``pinned`` (data_parallel, tensor_parallel, pipeline, context_parallel, micro_batch, interleave,
    policy, sharded, sequence_parallel, and offset: 0 for layers that divide over the stages) keep their value. ``headroom``: share of
    the device that must stay free; ``skipped``: policies that save nothing in this model, which are priced as none where they are pinned.
    """

    devices: int
    global_batch: int
    headroom: float = 0.1
    pinned: dict[str, Any] = field(default_factory=dict)
    repeats_kv_heads: bool = False
    skipped: tuple[Policy, ...] = ()

    def allows(self, axis: str, value: object) -> bool:
        return axis not in self.pinned or self.pinned[axis] == value

    def inner(self) -> list[tuple[int, Policy, bool, int]]:
        """Every choice beside the mesh: (micro_batch, policy, sharded, interleave)."""
        return [
            (micro, policy, sharded, chunk)
            for micro in self._axis("micro_batch", MICRO_BATCHES)
            for policy in self._axis("policy", POLICIES)
            if policy not in self.skipped or "policy" in self.pinned
            for sharded in self._axis("sharded", SHARDINGS)
            for chunk in self._axis("interleave", INTERLEAVES)
        ]

    def _axis(self, axis: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.pinned[axis],) if axis in self.pinned else values


def meshes(space: Space) -> Iterator[tuple[int, int, int, int]]:
    """(data_parallel, tensor_parallel, pipeline, context_parallel) whose product is the number of devices."""
    whole = divisors(space.devices)
    for t in whole:
        if not space.allows("tensor_parallel", t):
            continue
        for p in divisors(space.devices // t):
            if not space.allows("pipeline", p):
                continue
            for cp in divisors(space.devices // (t * p)):
                data = space.devices // (t * p * cp)
                if space.allows("context_parallel", cp) and space.allows("data_parallel", data):
                    yield data, t, p, cp


def why_not(dims: Dimensions, space: Space, mesh: tuple[int, int, int, int]) -> str | None:
    """Why a mesh can't be laid out, in the words of the class it falls out with; None where it can."""
    data, t, p, cp = mesh
    if dims.heads % t or dims.feed_forward % t or dims.vocab % t:
        return "tensor_parallel does not divide heads, feed-forward or vocabulary"
    if dims.kv_heads % t and not (space.repeats_kv_heads and t % dims.kv_heads == 0):
        return "tensor_parallel does not divide the key/value heads"
    if p > dims.layers:
        return "more pipeline stages than layers"
    if t == 1 and space.pinned.get("sequence_parallel"):
        return "sequence parallelism, which was set, needs tensor parallelism"
    if dims.seq % (cp * t):
        return "context_parallel x tensor_parallel does not divide the sequence"
    if space.global_batch % data:
        return "data_parallel does not divide the global batch"
    return None


def why_not_inner(dims: Dimensions, space: Space, mesh: tuple[int, int, int, int], micro: int, sharded: bool, chunk: int) -> str | None:
    """The same of the choices beside the mesh."""
    data, _, p, cp = mesh
    each = space.global_batch // data
    if each % micro:
        return "micro batch does not divide a replica's share of the global batch"
    if p > 1 and each // micro < p:
        return "fewer micro batches than pipeline stages"
    if chunk > 1 and (p == 1 or p * chunk > dims.layers):
        return "interleaving needs a pipeline and a layer for each chunk"
    if space.pinned.get("offset") == 0 and dims.layers % (p * chunk):
        return "the layers do not divide over the stages, and an offset of 0 was set"
    if sharded and data * cp == 1:
        return "optimizer sharding needs replicas"
    return None


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    low = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return low + [number // n for n in reversed(low) if n * n != number]
