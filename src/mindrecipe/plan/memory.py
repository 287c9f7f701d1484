"""Memory of each pipeline stage, itemised: what a rank of it holds at the worst moment of a step.

Static: weights, gradients, masters, moments (Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054, section 3 and 5 for the sharded stages).
Dynamic: kept activations times the micro batches in flight, then the worse of two moments: the loss (logits, gradient of the output
layer) and the backward pass of one layer (what it computes again, its gradients). A share of the dynamic part is lost
to fragmentation, and driver and communication library take a reserve. All in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mindrecipe.plan import activations, parameters, shares, stages, update
from mindrecipe.plan.job import Job, validate
from mindrecipe.plan.shares import Held

GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class StageMemory:
    """One rank of ``stage``; ``items`` in bytes, in the order they are told; ``kinds`` splits the activations by kind."""

    stage: int
    layers: int
    parameters: float
    items: dict[str, float]
    kinds: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.items.values())


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """One layer of the model: its parameters on a rank, their states, and what it keeps for all micro batches in flight, in bytes."""

    index: int
    kind: str
    stage: int
    recompute: str
    parameters: float
    states: float
    activations: float


@dataclass(frozen=True, slots=True)
class Memory:
    """All stages. ``capacity`` bytes of the device."""

    stages: tuple[StageMemory, ...]
    capacity: float

    @property
    def peak(self) -> StageMemory:
        """The stage that needs most."""
        return max(self.stages, key=lambda stage: stage.total)

    @property
    def headroom(self) -> float:
        """Share of the device that the fullest stage leaves; negative where it does not fit."""
        return 1 - self.peak.total / self.capacity

    @property
    def fits(self) -> bool:
        return self.peak.total <= self.capacity


def price(job: Job) -> Memory:
    """Memory of every stage of a valid job; CannotPrice names what can't be priced."""
    validate(job)
    layers = layer_kinds(job)
    return Memory(tuple(of_stage(job, stage, layers) for stage in range(job.layout.pipeline)), (job.device.memory_gb or 0) * GIB)


@dataclass(frozen=True, slots=True)
class LayerKind:
    """A dense layer, or one with experts, as it is priced many times: its parameters on a rank and its activations by policy."""

    held: float
    whole: float
    rest: activations.LayerActivations
    full: activations.LayerActivations


def layer_kinds(job: Job) -> tuple[LayerKind, LayerKind | None]:
    """(dense, with experts), the latter None in a model without."""
    found = []
    for moe in (False, True)[: 2 if job.dims.experts else 1]:
        tensors = activations.tensors(job, moe)
        rest = activations.of_layer(job, moe, activations.rest_policy(job), tensors)
        full = activations.of_layer(job, moe, "full", tensors)
        found.append(LayerKind(parameters.layer(job.dims, moe).per_rank(job.layout), sum(tensors.values()), rest, full))
    return found[0], found[1] if len(found) > 1 else None


def states(job: Job, held: Held, table: Held) -> dict[str, float]:
    """Static bytes of what a rank holds by item, and of an embedding ``table`` beside it."""
    s = job.states
    zero = [shares.kept(job, held + table, level) for level in (1, 2, 3)]
    return {
        "parameters": s.weight * zero[0 if s.weights_follow else 2],
        "gradients": s.gradient * zero[1],
        "fp32 masters": (s.master + s.step_copy) * zero[0],
        "optimizer state": s.moments * zero[0],
        "working copies": s.working * shares.kept(job, held, 3),
    }


def static(job: Job, stage: int) -> tuple[float, dict[str, float]]:
    """Parameters on a rank of ``stage``, and the bytes of what it holds of them whatever the micro batch, by item."""
    held, table = shares.of_stage(job, stage), shares.of_table(job, stage)
    return held.total + table.total, states(job, held, table)


def of_stage(job: Job, stage: int, layers: tuple[LayerKind, LayerKind | None] | None = None) -> StageMemory:
    """One rank of ``stage``, itemised; ``layers``: the job's :func:`layer_kinds`, where they are known."""
    f, lay = job.framework, job.layout
    dense, moe = stages.counts(job)[stage]
    kinds_of_layer = [(kind, count) for kind, count in zip(layers or layer_kinds(job), (dense, moe), strict=True) if kind and count]
    held, items = static(job, stage)
    kinds, again = _kept(job, stage, kinds_of_layer)
    items["working copies"] += _copies_in_flight(job, stage, kinds_of_layer)
    items["activations"] = sum(kinds.values())
    scores = lay.micro_batch * job.dims.seq**2 / lay.context_parallel
    constant = f.mask_constant * job.dims.seq**2 * stages.chunks(job)
    items["masks"] = constant + f.mask_kept * stages.in_flight(job, stage) * scores
    first, last = stage == 0, stage == parameters.last_stage(lay)
    stream = activations.boundary(job)
    kept, peak = activations.logits(job) if last else (0.0, 0.0)
    items["logits and loss"] = kept + (2 * stream if last else 0)  # and the final norm's input and result
    largest = max((kind.held for kind, _ in kinds_of_layer), default=0.0)
    whole = max((kind.whole for kind, _ in kinds_of_layer), default=0.0)
    vocabulary = job.dims.vocab * job.dims.hidden / (lay.tensor_parallel if lay.split_vocabulary else 1) * (first or last)
    step = _update(job, stage, held) if f.graph_update else None
    at_loss = peak - kept + f.transient_gradient * vocabulary + (step.decayed_first if step else 0)
    in_layer = again + f.layer_workspace * whole + f.transient_gradient * (largest + (vocabulary if first and not last else 0))
    gathered = f.gathers_table * shares.of_table(job, stage).total if lay.sharding != "none" and not job.states.whole_embedding else 0.0
    in_layer += max(step.decayed, gathered) if step else 0
    items["workspace"] = max(at_loss, in_layer) + _gathered(job, largest)
    items["communication"] = 2 * stream * ((not first) + (not last)) if lay.pipeline > 1 else 0.0
    if step is not None:
        if not job.states.gradients_live:
            items["gradients"] = 0.0
        passing = sum(items[name] for name in ("working copies", "activations", "masks", "logits and loss", "workspace", "communication"))
        items["optimizer step"] = max(0.0, step.most - (passing - constant))
    elif not job.states.gradients_live:
        _late_gradients(items)
    dynamic = items["activations"] + items["logits and loss"] + items["workspace"] + items["communication"]
    items["fragmentation"] = f.fragmentation * dynamic
    items["reserve"] = f.reserve_gib * GIB
    return StageMemory(stage, dense + moe, held, items, kinds)


def _kept(job: Job, stage: int, layers: list[tuple[LayerKind, int]]) -> tuple[dict[str, float], float]:
    """(bytes kept by kind over all micro batches in flight, most bytes that one layer computes again)."""
    kinds: dict[str, float] = {}
    again = 0.0
    for kind, full, rest, _ in _in_flight(job, stage, layers):
        for layer, times in ((kind.full, full), (kind.rest, rest)):
            if times:
                again = max(again, layer.again)
                for name, size in layer.kept.items():
                    kinds[name] = kinds.get(name, 0.0) + times * size
    return kinds, again


def _in_flight(job: Job, stage: int, layers: list[tuple[LayerKind, int]]) -> list[tuple[LayerKind, float, float, int]]:
    """Layers x micro batches in flight of each kind: those that are recomputed whole, and the others; and how many the others are."""
    if job.recompute.full_layers is None and len(layers) == 1:
        alive, everything = stages.in_flight(job, stage), job.recompute.policy == "full"
        return [(kind, alive * count, 0.0, 0) if everything else (kind, 0.0, alive * count, count) for kind, count in layers]
    found = []
    left = [count for _, count in layers]
    # a chunk recomputes its first layers; dense layers come first in a model with experts
    for alive, held, full in zip(stages.alive(job, stage), _held(job, stage), activations.full_of_chunks(job, stage), strict=True):
        room, again = held, full
        for place, (kind, _) in enumerate(layers):
            count = min(left[place], room)
            whole = min(count, again)
            found.append((kind, float(alive * whole), float(alive * (count - whole)), count - whole))
            left[place], room, again = left[place] - count, room - count, again - whole
    return found


def _held(job: Job, stage: int) -> list[int]:
    """Layers of each chunk of ``stage``."""
    return [row[stage] for row in stages.rows(job)]


def _copies_in_flight(job: Job, stage: int, layers: list[tuple[LayerKind, int]]) -> float:
    """Half copies of weights that micro batches in flight hold beside the first.

    In the graph each micro batch casts a weight anew and keeps the copy for its backward pass; only gathered copies of sharded weights are
    shared (dry runs: Linear/Cast against Linear/AllGather). Layers that are computed again whole cast again.
    """
    if not job.framework.graph_update or (job.layout.sharding != "none" and job.layout.shards > 1):
        return 0.0
    return job.states.working * sum(kind.held * (kept - count) for kind, _, kept, count in _in_flight(job, stage, layers))


def _late_gradients(items: dict[str, float]) -> None:
    """Without accumulation gradients appear as activations go: the worst moment has the larger of the two, not both."""
    passing = ("activations", "logits and loss", "workspace")
    if sum(items[name] for name in passing) >= items["gradients"]:
        items["gradients"] = 0.0
    else:
        items.update(dict.fromkeys(passing, 0.0))


def _update(job: Job, stage: int, held: float) -> update.Update:
    """The update of ``held`` parameters on a rank of ``stage``."""
    table = shares.kept(job, shares.of_table(job, stage), 1)
    return update.of_stage(
        job,
        every=held,
        updated=shares.kept(job, shares.of_stage(job, stage), 1) + table,
        table=table,
        largest=shares.largest(job, stage),
        ends=0 < stage == parameters.last_stage(job.layout),
    )


def _gathered(job: Job, largest: float) -> float:
    """Weights of the layers that are gathered at once where weights are sharded: the one computed and the one prefetched."""
    if job.layout.sharding != "full" or job.layout.shards == 1:
        return 0.0
    return 2 * job.states.activation * largest


def by_layer(job: Job) -> list[LayerMemory]:
    """The table by layer, in the order of the model; the embedding and the head are no layers and not in it."""
    found = []
    for stage in range(job.layout.pipeline):
        indices = stages.layers_of(job, stage)
        again = activations.full_of_chunks(job, stage)
        place = [
            (alive, position < whole)
            for alive, held, whole in zip(stages.alive(job, stage), _held(job, stage), again, strict=True)
            for position in range(held)
        ]
        for index, (alive, full) in zip(indices, place, strict=True):
            moe = parameters.is_moe(job.dims, index)
            policy = "full" if full else activations.rest_policy(job)
            held = shares.of_layer(job, moe)
            kept = alive * activations.of_layer(job, moe, policy).total
            size = sum(states(job, held, Held()).values())
            found.append(LayerMemory(index, "experts" if moe else "dense", stage, policy, held.total, size, kept))
    return sorted(found, key=lambda layer: layer.index)
