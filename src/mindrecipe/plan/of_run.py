"""A derived configuration as a job: what mindformers will really hold for it.

Semantics of the installed version: fp32 parameters with half computation keep a half copy of each weight beside it (the cast of
LlamaAttention and friends is common to all micro batches), Adam's moments are fp32 (nn.AdamWeightDecay), gradients are summed in an fp32
buffer where there is a pipeline or accumulation (MFPipelineWithLossScaleCell). Optimizer sharding shards weights, moments and masters
(enable_parallel_optimizer), not the buffer of gradients (gradient_accumulation_shard False, lower/parallel.py).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from mindrecipe.config.schema import AmpConfig, ModelConfig, RecomputeConfig, RunConfig
from mindrecipe.models import mcore
from mindrecipe.models.family import Family, dims_of_attention, feed_forward_of
from mindrecipe.models.hardware import Hardware
from mindrecipe.plan.framework import MINDSPORE, MINDSPORE_MCORE, Framework
from mindrecipe.plan.job import CannotPrice, Dimensions, Job, Layout, Policy, Recompute, Schedule, Sharding, States
from mindrecipe.plan.offsets import layers_of_stages

_SCHEDULES: dict[str | None, Schedule] = {None: "1f1b", "1f1b": "1f1b", "gpipe": "gpipe", "zero_bubble_v": "zero_bubble_v"}
#: keys of a legacy model_config -> a part of the model that its parameters and activations are not counted for
_UNCOUNTED = {
    "kv_lora_rank": "latent attention",
    "q_lora_rank": "latent attention",
    "first_k_dense_replace": "dense layers before those with experts",
    "n_shared_experts": "shared experts",
    "shared_expert_num": "shared experts",
    "moe_shared_expert_intermediate_size": "shared experts",
    "shared_expert_intermediate_size": "shared experts",
    "num_nextn_predict_layers": "multi-token prediction",
    "mtp_num_layers": "multi-token prediction",
}
_ADAM = ("AdamW", "PmaAdamW", "FusedPmaAdamW", "AdamWeightDecay", "Adam", "FusedAdamWeightDecay")


def job_of(config: RunConfig, family: Family, hardware: Hardware, devices: int) -> Job:
    """The job of a configuration whose nulls are filled (Derived.config); CannotPrice for the part that is not priced."""
    device = dataclasses.replace(
        hardware,
        memory_gb=config.device.memory_gb or hardware.memory_gb,
        peak_half_tflops=config.device.peak_tflops or hardware.peak_half_tflops,
        devices_per_node=config.launch.devices_per_node or hardware.devices_per_node,
    )
    layout, legacy = _layout(config, devices), family.architecture != "mcore"
    layout = dataclasses.replace(layout, table_over_context=family.name == "llama", expert_tensor=legacy)
    return Job(
        dims=dimensions(config.model, family),
        device=device,
        layout=layout,
        states=dataclasses.replace(
            states(config.amp, config.optimizer.type, accumulates=layout.pipeline > 1 or layout.micro_batches > 1),
            whole_embedding=family.name == "llama" and not config.model.extra.get("parallel_optimizer", False),
        ),
        recompute=recompute_of(config.recompute, family, bool(config.model.use_flash_attention), config.parallel.pipeline_interleave),
        compute=config.amp.compute_dtype or "float32",
        framework=MINDSPORE if legacy else _mcore(config.model),
    )


def _mcore(model: ModelConfig) -> Framework:
    """MINDSPORE_MCORE without what a custom model's keys leave out."""
    given = model.extra if model.family == "custom" else {"fp32_residual_connection": True, "qk_layernorm": True}
    whole = bool(given.get("fp32_residual_connection"))  # matrices then give fp32 as well: the dtype of what they were given
    return dataclasses.replace(
        MINDSPORE_MCORE,
        residual=MINDSPORE_MCORE.residual if whole else 0,
        gate=MINDSPORE_MCORE.gate if whole else 0,
        head_norms=MINDSPORE_MCORE.head_norms if given.get("qk_layernorm") else 0,
    )


def dimensions(model: ModelConfig, family: Family) -> Dimensions:
    """A completed model's dimensions: parameters.model of them is the family's count exactly. CannotPrice for parts not counted."""
    extra: dict[str, Any] = model.extra
    custom = model.family == "custom"
    if custom and family.architecture == "mcore":
        return _mcore_dimensions(model, family)
    heads, kv_heads, head_dim = dims_of_attention(model)
    uncounted = next((key for key in _UNCOUNTED if custom and isinstance(extra.get(key), int) and extra[key] > 0), None)
    if uncounted:
        raise CannotPrice(f"model.extra.{uncounted}={extra[uncounted]}: {_UNCOUNTED[uncounted]} of this custom model are not priced")
    if custom and not family.parameters(model):
        raise CannotPrice("model.keys does not tell num_layers, hidden_size, num_heads and vocab_size of this custom model")
    gated = not (custom and re.search("GPT2|Pangu", str(extra.get("type", ""))))
    experts = next((extra[key] for key in mcore.EXPERTS if isinstance(extra.get(key), int) and extra[key] > 0), 0) if custom else 0
    width = extra.get("moe_intermediate_size") or feed_forward_of(model)
    norms = 0 if custom else 2 * model.hidden_size + (2 * head_dim if model.family == "qwen3" else 0)
    visited = next((extra[key] for key in mcore.VISITED if isinstance(extra.get(key), int)), min(2, experts))
    return Dimensions(
        layers=model.num_layers,
        hidden=model.hidden_size,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=feed_forward_of(model),
        vocab=model.vocab_size,
        seq=model.seq_length,
        gated=gated,
        tied=model.tie_word_embeddings,
        norms=norms,
        final_norm=0 if custom else model.hidden_size,
        experts=experts,
        experts_per_token=visited if experts else 0,
        expert_width=width if experts else 0,
        router=not custom,
        flash=bool(model.use_flash_attention),
    )


def _mcore_dimensions(model: ModelConfig, family: Family) -> Dimensions:
    if not family.parameters(model):
        raise CannotPrice("model.keys does not tell num_layers, hidden_size, num_heads and vocab_size of this custom model")
    try:
        parts = mcore.parts_of(model)
    except mcore.NotCounted as fault:
        raise CannotPrice(str(fault)) from fault
    if parts.predicted:
        raise CannotPrice("multi-token prediction of this custom model (num_nextn_predict_layers, mtp_num_layers) is not priced")
    heads, kv_heads, head_dim = dims_of_attention(model)
    return Dimensions(
        layers=model.num_layers,
        hidden=model.hidden_size,
        heads=heads,
        kv_heads=heads if parts.latent else kv_heads,
        head_dim=parts.latent.head if parts.latent else head_dim,
        feed_forward=feed_forward_of(model),
        vocab=model.vocab_size,
        seq=model.seq_length,
        tied=model.tie_word_embeddings,
        norms=2 * model.hidden_size + parts.norms,
        final_norm=model.hidden_size,
        experts=parts.experts,
        experts_per_token=parts.visited,
        expert_width=parts.expert_width,
        shared_width=parts.shared_width,
        shared_gate=parts.shared_gate,
        dense_layers=parts.dense_layers,
        latent=parts.latent,
        flash=bool(model.use_flash_attention),
    )


def states(amp: AmpConfig, optimizer: str, accumulates: bool) -> States:
    """Bytes of a parameter under completed ``amp``; CannotPrice for an optimizer whose state is not known.

    A half copy of each fp32 weight lives through the step, in a pipeline with the half gradient on its way into the buffer as well: seen in
    dry runs (benchmarks/plan_against_simulation.py). Without accumulation gradients come as activations go.
    """
    if optimizer not in _ADAM:
        raise CannotPrice(f"optimizer.type={optimizer}: its state is not known")
    weight, half = (2 if amp.param_dtype != "float32" else 4), (2 if amp.compute_dtype != "float32" else 4)
    copies = 0 if half == weight else half
    # moments are fp32 whatever the parameters are (core/optim/adamw.py); PmaAdamW averages weights in a copy (pma_adamw.py)
    return States(
        weight=weight,
        gradient=weight,
        master=weight if "Pma" in optimizer else 0,
        moments=8,
        working=copies,
        activation=half,
        gradients_live=accumulates,
        weights_follow=True,
    )


def recompute_of(given: RecomputeConfig, family: Family, flash: bool, interleave: int = 1) -> Recompute:
    """What of a recompute policy is priced.

    mindformers marks selected operators in both architectures (LayerSetting), but in a dry run of the legacy Llama with flash attention
    the peak stayed to the MiB what it was without: they count as kept there. Without flash attention LLamaAttention recomputes the
    scores itself (llama_transformer.py). Patterns beside the family's own count as kept too: the estimate is then too high, not too low.
    """
    policy: Policy = "none"
    if given.policy == "full":
        policy = "full"
    elif given.policy in ("selective", "attention"):
        own = family.selective_patterns if given.policy == "selective" else family.attention_patterns
        if family.architecture == "legacy":
            policy = "none" if flash else "attention"
        elif not given.patterns or set(own) <= set(_patterns(given.patterns)):
            policy = "selective" if given.policy == "selective" else "attention"
    whole, chunks = _numbers(given.layers, interleave) if given.policy == "per_stage" else (None, None)
    return Recompute(policy=policy, full_layers=whole, full_chunks=chunks, slice_kept=given.recompute_slice_activation)


def _patterns(given: Any) -> list[Any]:
    """The patterns of recompute.patterns, a list or a mapping of them to layers; CannotPrice for anything else."""
    if not isinstance(given, list | dict):
        raise CannotPrice(f"recompute.patterns={given} is neither a list of patterns nor a mapping of them to layers")
    return [str(pattern) for pattern in given]


def _numbers(layers: list[Any] | None, chunks: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...] | None]:
    """recompute.layers as (of each stage, of each stage in each chunk)."""
    given = layers or []
    if all(map(_is_count, given)):
        return tuple(given), None
    rows = [row for row in given if isinstance(row, list) and all(map(_is_count, row))]
    if len(rows) < len(given) or len(rows) != chunks or len({len(row) for row in rows}) != 1:
        raise CannotPrice(f"recompute.layers={layers} is neither a number a stage, nor a row of them for each of {chunks} chunks")
    return tuple(sum(column) for column in zip(*rows, strict=True)), tuple(map(tuple, rows))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _shares(size: int | None, replicas: int) -> bool:
    """Whether MindSpore shards over groups of ``size``; else all replicas share (rules/optimizer_parallel.py)."""
    return size is not None and size > 1 and replicas % size == 0


def _layout(config: RunConfig, devices: int) -> Layout:
    p, m = config.parallel, config.model
    if p.mode == "auto":
        raise CannotPrice("parallel.mode=auto: MindSpore finds the strategies itself, and what it finds is not known before")
    if p.mode != "semi_auto":
        replicas = 1 if p.mode == "standalone" else devices
        sharding: Sharding = "optimizer" if p.optimizer_parallel and replicas > 1 else "none"
        return Layout(data_parallel=replicas, micro_batch=config.dataset.batch_size, sharding=sharding)
    if p.pipeline_scheduler not in _SCHEDULES:
        raise CannotPrice(f"parallel.pipeline_scheduler={p.pipeline_scheduler}: sequence pipelines are not priced")
    held = layers_of_stages(m.num_layers, p.pipeline_stage, p.pipeline_interleave, m.offset) if m.offset != 0 else None
    return Layout(
        data_parallel=p.data_parallel or 1,
        tensor_parallel=p.model_parallel,
        context_parallel=p.context_parallel,
        pipeline=p.pipeline_stage,
        expert_parallel=p.expert_parallel,
        sequence_parallel=p.use_seq_parallel,
        micro_batch=config.dataset.batch_size * p.micro_batch_interleave_num,
        micro_batches=p.micro_batch_num if p.pipeline_stage > 1 else p.gradient_accumulation_steps,
        interleave=p.pipeline_interleave,
        schedule=_SCHEDULES[p.pipeline_scheduler],
        layers_of_stages=tuple(tuple(row) for row in held) if held else None,
        sharding="optimizer" if p.optimizer_parallel else "none",
        shard_size=p.optimizer_weight_shard_size if _shares(p.optimizer_weight_shard_size, p.data_parallel or 1) else None,
        split_vocabulary=not p.vocab_emb_dp,
    )
