"""rehearse=mini: the same recipe, so small that its whole path can be tried first: environment faults are told from recipe faults.

What makes a run what it is stays: family, parallel mode, number of stages and chunks, recomputation and its pattern over the
stages, schedule and its shape, optimizer, precision, checkpoints. What makes it large shrinks: widths, layers a stage, vocabulary, lengths,
replicas, steps. Whatever is changed is listed. On a machine without NPUs a rehearsal that is not simulated trains on its CPU, for
which a sharded mesh is given up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from mindrecipe.config.schema import AmpConfig, CheckpointConfig, ModelConfig, ParallelConfig, RecomputeConfig, RunConfig, ScheduleConfig
from mindrecipe.derive.mesh import SHARDED

HEAD_DIM = 16
VOCABULARY = 1024
SEQUENCE = 128
LAYERS_A_CHUNK = 1
STEPS = 20
#: keys of models' own that make them large (mixtures of experts, latent attention), and what they are at the most
EXTRA = {
    "num_experts": 8,
    "n_routed_experts": 8,
    "expert_num": 8,
    "moe_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 64,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": HEAD_DIM,
    "qk_rope_head_dim": HEAD_DIM,
    "v_head_dim": HEAD_DIM,
}


@dataclass(frozen=True, slots=True)
class Change:
    """``key`` was ``before`` and is ``after``."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.before} -> {self.after}"


def mini(config: RunConfig, *, npus: bool) -> tuple[RunConfig, tuple[Change, ...]]:
    """``config`` as a rehearsal, and everything that was changed. ``npus``: this machine has devices of its own, or simulates them."""
    parallel = _parallel(config.parallel)
    small = replace(config, parallel=parallel, model=_model(config.model, parallel), recompute=_recompute(config))
    small = replace(
        small,
        dataset=replace(
            config.dataset,
            source="stdlib",
            files=[],
            heldout_files=[],
            batch_size=min(config.dataset.batch_size, 2),
            tokenizer="bpe",
            tokenizer_vocab_size=None,
            num_parallel_workers=None,  # this machine's cores may be fewer than the cluster's
        ),
        schedule=_schedule(config),
        checkpoint=_checkpoint(config),
        launch=replace(config.launch, nodes=1, node_rank=None, master_addr="127.0.0.1", workers=None, devices_per_node=devices(parallel)),
    )
    if not npus:
        small = _on_cpu(small)
    return small, tuple(changes(config, small))


def devices(parallel: ParallelConfig) -> int:
    """Devices of a rehearsal's mesh."""
    axes = parallel.model_parallel * parallel.context_parallel * parallel.pipeline_stage
    return axes * (parallel.data_parallel or 1)


def _two(size: int) -> int:
    return min(size, 2)


def _parallel(given: ParallelConfig) -> ParallelConfig:
    """Every axis that is there stays, two wide; stages, chunks and the ratio of micro batches to stages stay."""
    if given.mode not in SHARDED:
        return replace(given, data_parallel=None if given.mode == "standalone" else 2)
    expert = _two(given.expert_parallel)
    per_stage = math.ceil(given.micro_batch_num / given.pipeline_stage)
    return replace(
        given,
        data_parallel=2,
        model_parallel=_two(given.model_parallel),
        context_parallel=_two(given.context_parallel),
        expert_parallel=expert,
        micro_batch_num=given.pipeline_stage * min(per_stage, 2) if given.pipeline_stage > 1 else min(given.micro_batch_num, 2),
        gradient_accumulation_steps=min(given.gradient_accumulation_steps, 2),
        optimizer_weight_shard_size=None if given.optimizer_weight_shard_size is None else 2,
    )


def _model(given: ModelConfig, parallel: ParallelConfig) -> ModelConfig:
    """The ratio of query to key/value heads stays, and heads that the tensor-parallel devices share evenly."""
    kv_heads = given.num_kv_heads or given.num_heads
    ratio = max(1, given.num_heads // kv_heads)
    kv = max(1, min(kv_heads, parallel.model_parallel * parallel.context_parallel))
    heads = kv * min(ratio, 8) if ratio > 1 else max(4, kv)
    hidden = heads * HEAD_DIM
    chunks = parallel.pipeline_stage * parallel.pipeline_interleave
    layers = max(_uneven(given.offset) + chunks * LAYERS_A_CHUNK, min(given.num_layers, 2))
    vocabulary = min(given.vocab_size, VOCABULARY)
    tokens = _moved_tokens(given, vocabulary)
    return replace(
        given,
        bos_token_id=tokens.get(given.bos_token_id, given.bos_token_id),
        eos_token_id=tokens.get(given.eos_token_id, given.eos_token_id),
        pad_token_id=tokens.get(given.pad_token_id, given.pad_token_id),
        extra={key: min(value, EXTRA[key]) if key in EXTRA and isinstance(value, int) else value for key, value in given.extra.items()},
        num_layers=min(given.num_layers, layers) if given.num_layers >= chunks else given.num_layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv if given.num_kv_heads is not None else None,
        head_dim=HEAD_DIM if given.head_dim is not None else None,
        intermediate_size=None if given.intermediate_size is None else 2 * hidden,
        multiple_of=min(given.multiple_of, 32) if given.intermediate_size is None else given.multiple_of,
        vocab_size=vocabulary,
        seq_length=min(given.seq_length, SEQUENCE * parallel.seq_split_num),
        max_position_embeddings=None,
    )


def _moved_tokens(given: ModelConfig, vocabulary: int) -> dict[int, int]:
    """Special tokens beyond the small vocabulary move to its end; those that are one stay one."""
    beyond = sorted(token for token in {given.bos_token_id, given.eos_token_id, given.pad_token_id} if token >= vocabulary)
    return {token: vocabulary - 1 - place for place, token in enumerate(beyond)}


def _uneven(offset: list[Any] | int) -> int:
    """Layers that uneven stages have more than even ones, all together; at least what keeps the smallest stage one layer."""
    flat = [int(each) for row in (offset if isinstance(offset, list) else []) for each in (row if isinstance(row, list) else [row])]
    return sum(flat) + len(flat) * max(0, -min(flat, default=0)) if flat else 0


def _recompute(config: RunConfig) -> RecomputeConfig:
    """Layers a stage recomputes: those that recompute any keep one."""
    given = config.recompute
    communication = _ones(given.select_comm_recompute)
    return replace(given, layers=_ones(given.layers), patterns=_ones(given.patterns), select_comm_recompute=communication)


def _ones(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ones(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_ones(inner) for inner in value]
    return min(value, LAYERS_A_CHUNK) if isinstance(value, int) and not isinstance(value, bool) else value


def _schedule(config: RunConfig) -> ScheduleConfig:
    """So few steps; warm-up and decay keep their share of them."""
    given = config.schedule
    total = min(given.total_steps or STEPS, STEPS)
    share = total / given.total_steps if given.total_steps else None

    def scaled(steps: int | None) -> int | None:
        if steps is None:
            return None
        return min(total, math.ceil(steps * share) if share else steps)

    return replace(given, total_steps=total, epochs=1, warmup_steps=scaled(given.warmup_steps), decay_steps=scaled(given.decay_steps))


def _checkpoint(config: RunConfig) -> CheckpointConfig:
    """Saved at half of the steps where it is saved by steps; nothing is resumed."""
    given = config.checkpoint
    save = given.save_steps if given.save_steps is None else min(given.save_steps, STEPS // 2)
    return replace(given, resume="never", load=None, save_steps=save)


def _on_cpu(config: RunConfig) -> RunConfig:
    """What a CPU can't do is given up: the mesh becomes replicas or one process, half precision float16."""
    replicas = 1 if config.parallel.mode == "standalone" else 2
    recompute = config.recompute
    everywhere = {pattern: True for pattern in recompute.patterns} if isinstance(recompute.patterns, dict) else recompute.patterns
    policy = "full" if recompute.policy == "per_stage" else recompute.policy
    return replace(
        config,
        parallel=ParallelConfig(mode="standalone" if replicas == 1 else "data_parallel"),
        amp=AmpConfig(level=config.amp.level, loss_scale=config.amp.loss_scale),
        model=replace(config.model, offset=0, use_flash_attention=None, fused_rms_norm=None),
        recompute=replace(recompute, policy=policy, layers=None, patterns=everywhere, select_comm_recompute=False),
        device=replace(config.device, name="cpu", memory_gb=None, peak_tflops=None, jit_level=None),
        memory=replace(config.memory, max_device_memory=None, mempool_block_size=None),
        launch=replace(config.launch, mode="auto", devices_per_node=replicas),
    )


def changes(before: RunConfig, after: RunConfig) -> list[Change]:
    """What differs, knob by knob, and key by key in the knobs that are maps."""
    found = []
    for section in before.__dataclass_fields__:
        left, right = getattr(before, section), getattr(after, section)
        if left == right:
            continue
        for key in getattr(left, "__dataclass_fields__", ()):
            was, now, name = getattr(left, key), getattr(right, key), f"{section}.{key}"
            if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
                found += [Change(f"{name}.{each}", was[each], now[each]) for each in was if was[each] != now[each]]
            elif was != now:
                found.append(Change(name, was, now))
    return found
