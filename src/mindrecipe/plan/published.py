"""Published tables priced: for each row memory and throughput, or the part that is not priced, and the verdict on its claim.

Columns: source, model, n_params, layers, hidden, heads, kv_heads, ffn, vocab, seq, micro_batch, global_batch, dp, tp, pp, cp, zero_or_fsdp,
recompute, dtype, device, n_devices, peak_mem_gib, tokens_per_s_per_device, tflops_per_device, mfu, notes. Empty cells are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mindrecipe.plan import clock, flops, memory, parameters, words
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.conventions import Convention
from mindrecipe.plan.job import CannotPrice, Job
from mindrecipe.plan.rows import job_of_row

#: memory within this of the device is too close to call
MARGIN = 0.10
#: columns of what was measured
_MEASURED = ("peak_mem_gib", "tokens_per_s_per_device", "tflops_per_device", "mfu")
#: tables mix GB of 10^9 and 2^30 bytes
_GB_OR_GIB = 2.0**30 / 1e9
#: parts that the planner does not price, by a pattern in a row's words
_UNPRICED = (
    (r"\bqlora\b", "QLoRA: quantised frozen weights"),
    (r"\blora\b", "LoRA: frozen weights without gradients"),
    (r"cpu.?offload\s*\+|offload to cpu|cpu_offload true", "weights and optimizer in host memory"),
    (r"\(unpacked\)", "unpacked batches: their length is not stated"),
)


@dataclass(frozen=True, slots=True)
class Priced:
    """One row. ``verdict``: fits, close, does not fit, impossible, or unknown; predictions are None where ``refused`` says why.

    Memory in GiB, throughput in tokens/s/device; ``stated_*`` are the row's own figures in these units.
    """

    row: int
    model: str
    verdict: str
    memory_gib: float | None = None
    tokens_per_s: float | None = None
    stated_memory: float | None = None
    stated_tokens: float | None = None
    capacity_gib: float | None = None
    out_of_memory: bool = False
    refused: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    claim: str = ""


def price_row(row: Mapping[str, str], index: int = 0) -> Priced:
    """Price one row of a published table; never raises for what a row says."""
    row = {key: value.strip() if isinstance(value, str) else "" for key, value in row.items() if key}
    model, said = row.get("model", ""), f"{row.get('notes', '')} {row.get('recompute', '')}"
    out = any(words.out_of_memory(cell) for cell in (said, *(row.get(name, "") for name in _MEASURED)))
    refused = [what for pattern, what in _UNPRICED if re.search(pattern, said.lower())]
    assumed: list[str] = []
    kind = words.other_kind(model)
    refused += [f"the model has {kind}"] if kind else []
    try:
        stated = [words.number(row.get(name, "")) for name in _MEASURED]
        job, convention = job_of_row(row, assumed)
    except CannotPrice as fault:
        return _unpriced(row, index, out, [*refused, str(fault)])
    tokens = stated[1] or _tokens_of_flops(row, job)
    claim = _claim(row, job, tokens, frozen=any("LoRA" in what for what in refused))
    if refused:
        return Priced(
            index,
            model,
            "impossible" if claim else "unknown",
            stated_memory=stated[0],
            stated_tokens=tokens,
            out_of_memory=out,
            refused=tuple(refused),
            assumed=tuple(assumed),
            claim=claim,
        )
    refused += _unstated(row, job, convention, assumed)
    held = None if refused else convention.gib(memory.price(job), row)
    capacity = job.device.memory_gb or 0
    verdict = "unknown"
    if held is not None and not convention.activations_only:
        verdict = "fits" if held <= (1 - MARGIN) * capacity else "close" if held <= capacity else "does not fit"
    try:
        rate = clock.price(job, efficiency_of(job, convention.software)).tokens_per_s
    except CannotPrice as fault:
        rate = None
        refused.append(str(fault))
    return Priced(
        index,
        model,
        "impossible" if claim else verdict,
        held,
        rate,
        stated[0],
        tokens,
        capacity,
        out,
        tuple(refused),
        tuple(assumed),
        claim,
    )


def _unstated(row: Mapping[str, str], job: Job, convention: Convention, assumed: list[str]) -> list[str]:
    """What memory depends on and the row does not state."""
    replicas = job.layout.data_parallel * job.layout.context_parallel
    missing = {
        "recomputation": words.recompute(row.get("recompute", ""), job.layout.pipeline)[1] == words.NO_RECOMPUTE,
        "sharding of the replicas": not row.get("zero_or_fsdp") and replicas > 1,
        "micro batch": not row.get("micro_batch") and not convention.knows_micro_batch,
    }
    found = [f"memory: {what} is not stated" for what, absent in missing.items() if absent]
    found += [f"memory: {each.partition(':')[0]}" for each in assumed if "not understood" in each]
    own = convention.refuses_memory(row)
    return found + ([f"memory: {own}"] if own else [])


def _unpriced(row: Mapping[str, str], index: int, out: bool, refused: list[str]) -> Priced:
    """A row whose job is unknown: its claim can still be above what its device can do."""
    stated = (_quiet(row.get("peak_mem_gib", "")), _quiet(row.get("tokens_per_s_per_device", "")))
    claim, size = "", words.parameters(row.get("n_params", ""), row.get("model", ""))
    if stated[1] and size and words.is_dense(row.get("model", "")):
        try:
            device = words.device(row.get("device", ""))
        except CannotPrice:
            device = None
        peak = device.peak_tflops(words.compute(row.get("dtype", ""))) if device else None
        if device and peak:
            claim = _above(stated[1], 6 * size, peak, device.title, _quiet(row.get("n_devices", "")) or 1)
    return Priced(
        index,
        row.get("model", ""),
        "impossible" if claim else "unknown",
        stated_memory=stated[0],
        stated_tokens=stated[1],
        out_of_memory=out,
        refused=tuple(refused),
        claim=claim,
    )


def _quiet(text: str) -> float | None:
    try:
        return words.number(text)
    except CannotPrice:
        return None


def _above(tokens: float, flops_of_token: float, peak: float, title: str, devices: float) -> str:
    needed = tokens * flops_of_token / 1e12
    if needed <= peak:
        return ""
    whole = "; as a figure of the whole job it would be possible" if devices > 1 and needed / devices <= peak else ""
    return f"{tokens:,.0f} tokens/s/device need {needed:,.0f} TFLOP/s, {title} peaks at {peak:,.0f}{whole}"


def _claim(row: Mapping[str, str], job: Job, tokens: float | None, frozen: bool) -> str:
    """What makes the row's figures impossible, "" where nothing does. Frozen weights need no gradients of their own: 4 FLOPs."""
    peak = job.device.peak_tflops(job.compute) or 0
    reported = words.number(row.get("tflops_per_device", ""))
    if reported and reported > peak:
        return f"{reported:,.0f} TFLOP/s/device are above the {peak:,.0f} of {job.device.title}"
    held, capacity = words.number(row.get("peak_mem_gib", "")), job.device.memory_gb or 0
    if held and held > capacity * _GB_OR_GIB:
        return f"{held:,.1f} GiB are more than the {capacity:.0f} of {job.device.title}"
    mfu = _mfu(row)
    if mfu and mfu > 100:
        return f"an MFU of {mfu:g} % is above the peak"
    if not tokens:
        return ""
    return _above(tokens, (4 if frozen else 6) * parameters.active(job.dims), peak, job.device.title, job.layout.devices)


def _mfu(row: Mapping[str, str]) -> float | None:
    """Percent; tables give shares as well."""
    mfu = words.number(row.get("mfu", ""))
    return 100 * mfu if mfu and mfu <= 1 else mfu


def _tokens_of_flops(row: Mapping[str, str], job: Job) -> float | None:
    """tokens/s/device that stated TFLOP/s or MFU mean; recomputation counts where the row says so."""
    reported, mfu = words.number(row.get("tflops_per_device", "")), _mfu(row)
    again = bool(re.search(r"(count|includes?) recompute", row.get("notes", "").lower()))
    each = flops.hardware_flops(job) if again else flops.model_flops(job.dims)
    if reported:
        return reported * 1e12 / each
    if mfu:
        return mfu / 100 * (job.device.peak_tflops(job.compute) or 0) * 1e12 / each
    return None
