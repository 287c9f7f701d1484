"""Rows of published tables as jobs: what a row states, what had to be assumed, and what is missing (columns: published.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mindrecipe.plan import parameters, words
from mindrecipe.plan.conventions import Convention, convention_of
from mindrecipe.plan.job import CannotPrice, Dimensions, Job, Layout, validate


def job_of_row(row: Mapping[str, str], assumed: list[str]) -> tuple[Job, Convention]:
    """The job that a row describes and how its source counts. What is assumed is added to ``assumed``; CannotPrice for what is missing."""
    device = words.device(row.get("device", ""))
    convention = convention_of(row, device)
    dims = convention.adapt(_dimensions(row, assumed, convention))
    p, t, cp = (words.integer(row.get(key, "")) or 1 for key in ("pp", "tp", "cp"))
    d = _replicas(row, p * t * cp, assumed)
    again, assumption = words.recompute(row.get("recompute", ""), p)
    assumed += [assumption] if assumption else []
    micro = words.integer(row.get("micro_batch", ""))
    batch = words.integer(row.get("global_batch", ""))
    if micro == 0 or batch == 0:
        raise CannotPrice("a batch of 0 sequences")
    if micro is None:
        micro = convention.micro_batch(batch, d)
        assumed.append(f"micro batch is not stated: {micro} assumed")
    if batch is None:
        count = 8 * p
        assumed.append(f"global batch is not stated: {count} micro batches assumed")
    else:
        count = max(1, round(batch / (micro * d)))
    shard = words.sharding(row.get("zero_or_fsdp", ""))
    layout = Layout(
        data_parallel=d,
        tensor_parallel=t,
        context_parallel=cp,
        pipeline=p,
        expert_parallel=_experts_parallel(row, d * cp) if dims.experts else 1,
        sequence_parallel=t > 1 and convention.sequence_parallel(row),
        micro_batch=micro,
        micro_batches=count,
        interleave=_interleave(row, dims.layers, p),
        sharding=shard,
        split_vocabulary=convention.split_vocabulary(row),
    )
    states = convention.states(row, count > 1)
    job = Job(
        dims=dims,
        device=device,
        layout=layout,
        states=states,
        recompute=again,
        framework=convention.framework(row),
        compute=words.compute(row.get("dtype", "")),
    )
    validate(job)
    return job, convention


def _replicas(row: Mapping[str, str], each: int, assumed: list[str]) -> int:
    """Data-parallel replicas of ``each`` devices; the number of devices counts where the row contradicts itself."""
    devices, stated = words.integer(row.get("n_devices", "")), words.integer(row.get("dp", ""))
    if not devices:
        return stated or 1
    if devices % each:
        raise CannotPrice(f"tp x pp x cp of {each} does not divide the {devices} devices")
    if stated and stated * each != devices:
        assumed.append(f"dp {stated} contradicts {devices} devices: {devices // each} assumed")
    return devices // each


def _dimensions(row: Mapping[str, str], assumed: list[str], convention: Convention) -> Dimensions:
    model = row.get("model", "")
    hidden, ffn, layers = (words.integer(row.get(key, "")) for key in ("hidden", "ffn", "layers"))
    heads, kv, vocab, seq = (words.integer(row.get(key, "")) for key in ("heads", "kv_heads", "vocab", "seq"))
    size = words.parameters(row.get("n_params", ""), model)
    if hidden is None or (layers is None and not row.get("n_params")):
        missing = [name for name, value in (("layers", layers), ("hidden", hidden), ("ffn", ffn)) if value is None]
        raise CannotPrice(f"the model's dimensions are not stated ({', '.join(missing)})")
    if seq is None:
        raise CannotPrice("the sequence length is not stated")
    if vocab is None:
        vocab = words.vocabulary(model)
        if vocab is None:
            raise CannotPrice("the vocabulary is not stated")
        assumed.append(f"vocabulary is not stated: {vocab} assumed")
    if heads is None:
        heads = _heads(hidden, words.integer(row.get("tp", "")) or 1)
        assumed.append(f"heads are not stated: {heads} assumed")
    kv = kv or heads
    if ffn is None:
        ffn = 4 * hidden
        assumed.append("ffn is not stated: 4 x hidden assumed")
    gate = words.gated(model, ffn, hidden, kv, heads)
    experts = re.search(r"(\d+)\s*x\s*\d+", model)
    if not experts and words.has_experts(model):
        raise CannotPrice("experts whose number and width are not stated")
    matrices = 3 if gate else 2
    head_dim = hidden // heads if hidden % heads == 0 else 128
    if layers is None:
        each = hidden * head_dim * (2 * heads + 2 * kv) + matrices * hidden * ffn
        layers = max(1, round(((size or 0) - vocab * hidden) / each))
        assumed.append(f"layers are not stated: {layers} follow from the parameters")
    dims = Dimensions(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv,
        head_dim=head_dim,
        feed_forward=ffn,
        vocab=vocab,
        seq=seq,
        gated=gate,
        norms=2 * hidden,
        final_norm=hidden,
        experts=int(experts[1]) if experts else 0,
        experts_per_token=2 if experts else 0,
        expert_width=ffn if experts else 0,
        flash=convention.flash(row),
    )
    if experts:
        assumed.append(f"{experts[1]} experts, two a token, from the name")
    counted = parameters.model(dims)
    if size and "truncated" not in model and not 0.6 * size <= counted <= 2 * size:
        raise CannotPrice(
            f"the dimensions give {counted / 1e9:.1f} billion parameters where {size / 1e9:.0f} are named: "
            + ("experts whose number and width are not stated" if counted < size else "layers of another kind")
        )
    return dims


def _heads(hidden: int, tensor: int) -> int:
    """A number of heads that divides, with a width near 128."""
    fitting = [count for count in range(tensor, hidden + 1, tensor) if hidden % count == 0]
    return min(fitting, key=lambda count: abs(hidden // count - 128), default=1)


def _interleave(row: Mapping[str, str], layers: int, stages: int) -> int:
    """Chunks of a stage: `VP n` is their number; MindSpeed's `VPP n` are the layers of one."""
    notes = row.get("notes", "")
    chunk_layers, count = re.search(r"\bVPP (\d+)", notes), re.search(r"\bVP (\d+)", notes)
    if stages == 1:
        return 1
    if chunk_layers:
        return max(1, layers // (stages * int(chunk_layers[1])))
    return min(int(count[1]), max(1, layers // stages)) if count else 1


def _experts_parallel(row: Mapping[str, str], most: int) -> int:
    stated = re.search(r"\bEP (\d+)", row.get("notes", ""))
    return int(stated[1]) if stated and most % int(stated[1]) == 0 else 1
