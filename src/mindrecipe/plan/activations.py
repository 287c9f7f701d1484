"""Activations: bytes one layer keeps for the backward pass, by kind, and what each recompute policy drops of them.

The count is Korthikanti et al. 2022 (arXiv 2205.05198, sections 4.1 and 4.2) carried over to gated feed-forwards, grouped-query
attention and flash attention, which keeps its statistics instead of the scores (Dao et al. 2022, arXiv 2205.14135). With tensor
parallelism t what lies between the matrices is split t ways; norms and the residual stream are split only by sequence parallelism. For
mindformers' layers the same tensors were read from LLamaDecodeLayer (models/llama/llama_transformer.py) and its FlashAttentionScore
outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindrecipe.plan import stages
from mindrecipe.plan.job import CannotPrice, Job, Policy

#: what a policy computes again; attention: the core only (Korthikanti's "selective"); selective: the cheap, wide operators of the gate
DROPPED: dict[Policy, frozenset[str]] = {
    "none": frozenset(),
    "attention": frozenset({"scores", "attention_core"}),
    "selective": frozenset({"gate_product", "gate_activation"}),
}


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Bytes a micro batch leaves in one layer. ``kept`` until its backward pass; ``again`` computed anew during it (transient)."""

    kept: dict[str, float]
    again: float

    @property
    def total(self) -> float:
        return sum(self.kept.values())


def tensors(job: Job, moe: bool) -> dict[str, float]:
    """Every tensor a layer would keep without recomputation, in bytes for one micro batch, by kind."""
    d, s, f = job.dims, job.states, job.framework
    tokens, t, between = job.tokens, job.layout.tensor_parallel, job.layout.sequence_shards
    stream = tokens * d.hidden / between
    gathered = tokens * d.hidden if f.gathers_norms else stream
    residual = f.residual or s.activation
    query, key, value = d.widths
    output = d.heads * (d.latent.value if d.latent else d.head_dim)
    kept = {
        "layer_input": residual * stream,
        "attention_norm": s.activation * gathered,
        "query_key_value": s.activation * tokens * (query + key + value) / t,
        "attention_core": tokens * (f.attention_outputs * s.activation * output + f.softmax_statistics * d.heads) / t,
        "residual": residual * stream,
        "feed_forward_norm": s.activation * gathered,
    }
    if f.norm_kept:
        kept["norm_copies"] = 2 * f.norm_kept * gathered
    if d.latent:
        ranks = d.latent.query_rank + d.latent.key_rank
        kept["latent"] = s.activation * tokens * ranks + (f.head_norms or s.activation) * tokens * (ranks + d.latent.position) / between
    elif f.head_norms:
        kept["head_norms"] = f.head_norms * tokens * (query + key) / t
    if not d.flash:
        # softmax output, and with dropout its mask and result: 5 a s^2 b (2 + 1 + 2 bytes); the context stays as it is
        per_score = 2 * s.activation + 1 if d.dropout else s.activation
        kept["scores"] = per_score * d.heads * tokens * d.seq / t
        kept["attention_core"] = tokens * s.activation * output / t
    if d.dropout:
        kept["dropout_masks"] = 2 * stream
    routed = tokens * d.experts_per_token * d.expert_width / t if moe else 0.0
    always = tokens * (d.shared_width if moe else d.feed_forward) / t
    gate = (f.expert_gate or s.activation) * routed + (f.gate or s.activation) * always
    kept["gate_input"] = gate * (d.feed_forward_matrices - 1)
    if d.gated and not f.fused_gate:
        kept["gate_activation"] = gate
    kept["gate_product"] = s.activation * (f.expert_outputs * routed + always)
    if moe:
        kept["routed_tokens"] = 2 * s.activation * tokens * d.experts_per_token * d.hidden / between
        kept["router"] = 8.0 * tokens * d.experts
    return kept


def of_layer(job: Job, moe: bool, policy: Policy, whole: dict[str, float] | None = None) -> LayerActivations:
    """What one layer keeps under ``policy`` and what it computes again; ``whole``: its :func:`tensors`, where they are known."""
    whole = whole or tensors(job, moe)
    if policy == "full":
        stream = whole["layer_input"]
        if job.recompute.slice_kept:
            stream /= job.layout.tensor_parallel / job.layout.sequence_shards
        return LayerActivations({"layer_input": stream}, sum(whole.values()) - whole["layer_input"])
    dropped = DROPPED[policy]
    kept = {kind: size for kind, size in whole.items() if kind not in dropped}
    return LayerActivations(kept, sum(size for kind, size in whole.items() if kind in dropped))


def full_layers(job: Job, stage: int, layers: int) -> int:
    """How many layers of ``stage`` are recomputed whole."""
    if job.recompute.full_layers is not None:
        return sum(full_of_chunks(job, stage))
    return layers if job.recompute.policy == "full" else 0


def full_of_chunks(job: Job, stage: int) -> list[int]:
    """The same of each chunk of the stage."""
    held, given = [row[stage] for row in stages.rows(job)], job.recompute
    if given.full_chunks is not None:
        if len(given.full_chunks) != len(held) or any(len(row) <= stage for row in given.full_chunks):
            told = "; ".join(", ".join(map(str, row)) for row in given.full_chunks)
            raise CannotPrice(
                f"the layers recomputed in each chunk ({told}) are not one number for each of the stages of {len(held)} chunks"
            )
        return [min(count, row[stage]) for count, row in zip(held, given.full_chunks, strict=True)]
    if given.full_layers is None:
        return held if given.policy == "full" else [0] * len(held)
    left = min(sum(held), given.full_layers[stage] if stage < len(given.full_layers) else 0)
    found = [0] * len(held)
    while left > 0:  # one for each chunk in turn, as long as it has one left
        for chunk, count in enumerate(held):
            if left and found[chunk] < count:
                found[chunk], left = found[chunk] + 1, left - 1
    return found


def rest_policy(job: Job) -> Policy:
    """The policy of the layers that are not recomputed whole."""
    return "none" if job.recompute.policy == "full" else job.recompute.policy


def logits(job: Job) -> tuple[float, float]:
    """(kept, peak) bytes of the logits and the loss of one micro batch on the stage that computes them."""
    d, lay, f = job.dims, job.layout, job.framework
    count = job.tokens * d.vocab / (lay.tensor_parallel if lay.split_vocabulary else lay.sequence_shards)
    return f.logit_kept * count, f.logit_peak * count


def boundary(job: Job) -> float:
    """Bytes of the hidden states that one stage hands to the next."""
    return (job.framework.residual or job.states.activation) * job.tokens * job.dims.hidden / job.layout.sequence_shards
