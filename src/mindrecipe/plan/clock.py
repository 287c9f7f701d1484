"""Time of a step: matrix multiplications, attention core, memory traffic, exposed communication, pipeline bubble, optimizer.

The bubble is (p-1)/v micro batches (Narayanan et al. 2021, section 2.2); zero-bubble's V leaves (p-1)(F + B - 2W) (Qi et al. 2024, arXiv
2401.10241, table 2). Loading data is taken as hidden behind the step. What of the peaks is reached is fitted (efficiency.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from mindrecipe.plan import activations, flops, parameters, stages, traffic
from mindrecipe.plan.calibration import Efficiency
from mindrecipe.plan.job import CannotPrice, Job, validate

TERA, GIGA = 1e12, 1e9


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds of one optimizer step, itemised; ``band``: relative, either way."""

    items: dict[str, float]
    tokens_per_s: float
    model_flops_s: float
    hardware_flops_s: float
    mfu: float
    hfu: float
    bubble: float
    band: float
    collectives: tuple[traffic.Collective, ...]

    @property
    def step(self) -> float:
        return sum(self.items.values())


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of one micro batch on one stage at the peaks: to be divided by what of them is reached."""

    matmul: float
    attention: float
    traffic: float


def aligned(job: Job) -> bool:
    """Whether every dimension of the matrices on a rank is a multiple of 64 (NVIDIA's matrix multiplication guide: 128 bytes)."""
    d, t = job.dims, job.layout.tensor_parallel
    widths = (d.hidden, d.heads * d.head_dim // t, (d.feed_forward if not d.experts else d.expert_width) // t)
    return all(width % 64 == 0 for width in widths)


def work(job: Job, stage: int) -> Work:
    """One micro batch, forward and backward, on ``stage``."""
    d, lay, device = job.dims, job.layout, job.device
    peak = (device.peak_tflops(job.compute) or 0) * TERA
    half = (device.peak_tflops("bfloat16") or 0) * TERA
    bandwidth = (device.memory_bandwidth or 0) * GIGA
    counts = stages.counts(job)[stage]
    matrix_passes, core_passes = flops.passes(job, sum(counts), stage)
    t, tokens = lay.tensor_parallel, job.tokens
    matmul = attention = moved = 0.0
    for moe, count in enumerate(counts):
        if not count:
            continue
        matmul += count * matrix_passes * flops.layer_matmul(d, bool(moe)) * tokens / t / peak
        # flash attention skips the masked half; an unfused core computes all of it
        attention += count * core_passes * flops.attention_per_layer(d) * (0.5 if d.flash else 1.0) * tokens / t / half
        tensors = activations.tensors(job, bool(moe))
        dropped = activations.DROPPED.get(job.recompute.policy, frozenset())
        again = sum(size for kind, size in tensors.items() if kind in dropped)
        moved += count * (matrix_passes * sum(tensors.values()) + (4 - matrix_passes) * again)
    if stage == parameters.last_stage(lay):
        matmul += 3 * 2.0 * d.vocab * d.hidden * tokens / (t if lay.split_vocabulary else 1) / half
        moved += 2 * activations.logits(job)[1]
    held = parameters.of_stage(job, stage).per_rank(lay)
    weights = held * (matrix_passes * job.states.activation + 2 * job.states.gradient)
    return Work(matmul, attention, (moved + weights) / bandwidth)


def stage_seconds(job: Job, efficiency: Efficiency, stage: int) -> float:
    """Seconds of one micro batch on ``stage``, forward and backward, without communication."""
    return sum(_seconds(job, stage, efficiency).values())


def _seconds(job: Job, stage: int, efficiency: Efficiency) -> dict[str, float]:
    done = work(job, stage)
    return {
        "matrix multiplications": done.matmul / (efficiency.matmul * (1.0 if aligned(job) else efficiency.misaligned)),
        "attention": done.attention / efficiency.attention,
        "memory traffic": done.traffic * efficiency.passes,
    }


def _telling(job: Job, layers: list[int]) -> list[int]:
    """Stages one of which is the slowest: the first, the last, and of those that compute as much again the one with most layers."""
    again = job.recompute.full_layers or ()
    kinds = {(count, again[stage] if stage < len(again) else 0): stage for stage, count in reversed(list(enumerate(layers)))}
    return sorted({0, len(layers) - 1, *kinds.values()})


def price(job: Job, efficiency: Efficiency) -> Time:
    """The step of a valid job under ``efficiency``."""
    validate(job)
    d, lay, device = job.dims, job.layout, job.device
    if device.peak_tflops(job.compute) is None or device.memory_bandwidth is None:
        raise CannotPrice(f"{device.title} has no published peak in {job.compute}")
    p, micro = lay.pipeline, lay.micro_batches
    layers = [sum(counts) for counts in stages.counts(job)]
    found = [_seconds(job, stage, efficiency) for stage in _telling(job, layers)]
    compute = {name: micro * seconds for name, seconds in max(found, key=lambda each: sum(each.values())).items()}
    moved = traffic.collectives(job, max(layers))
    hidden = {"data parallel": efficiency.data_exposed, "sharded weights": efficiency.data_exposed}
    exposed = {c.name: c.seconds * hidden.get(c.name, efficiency.tensor_exposed) for c in moved}
    per_micro = sum(compute.values()) + sum(time for name, time in exposed.items() if name not in hidden)
    waiting = (
        (p - 1) / lay.interleave / micro * per_micro if lay.schedule != "zero_bubble_v" else (p - 1) / micro * _unbalanced(compute, job)
    )
    state = job.states
    held = max(parameters.of_stage(job, stage).per_rank(lay) for stage in {0, p - 1})
    touched = 2 * (state.weight + state.master + state.moments) + state.gradient
    optimizer = held / (lay.shards if lay.sharding != "none" else 1) * touched / ((device.memory_bandwidth or 0) * GIGA)
    items = compute | exposed | {"pipeline bubble": waiting, "optimizer": optimizer}
    step = sum(items.values())
    tokens = job.tokens_per_step / step / lay.devices
    peak = (device.peak_tflops(job.compute) or 0) * TERA
    model, hardware = tokens * flops.model_flops(d), tokens * flops.hardware_flops(job)
    return Time(items, tokens, model, hardware, model / peak, hardware / peak, waiting / step, efficiency.band, tuple(moved))


def _unbalanced(compute: dict[str, float], job: Job) -> float:
    """F + B - 2W of zero-bubble: weight gradients are matrix work only, so attention and what is computed again remain."""
    whole = job.recompute.policy == "full"
    return compute["attention"] + compute["matrix multiplications"] * (0.25 if whole else 0.0)
