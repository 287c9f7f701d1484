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

from mindrecipe.config.schema import (
    AmpConfig,
    CheckpointConfig,
    ParallelConfig,
    ProfileConfig,
    RecomputeConfig,
    RunConfig,
    ScheduleConfig,
)
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.derive.rehearse_model import LAYERS_A_CHUNK, shrunk

STEPS = 20
_AXES = ("data_parallel", "model_parallel", "context_parallel", "expert_parallel", "pipeline_stage", "micro_batch_num")


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
    schedule = _schedule(config)
    small = replace(config, parallel=parallel, model=shrunk(config.model, parallel), recompute=_recompute(config))
    small = replace(
        small,
        dataset=replace(
            config.dataset,
            source="stdlib",
            files=[],
            heldout_files=[],
            batch_size=min(config.dataset.batch_size, 2),
            tokenizer="bytes" if config.dataset.tokenizer == "bytes" else "bpe",
            tokenizer_vocab_size=None,
            num_parallel_workers=None,  # this machine's cores may be fewer than the cluster's
            num_shards=None,
            shard_id=None,
        ),
        schedule=schedule,
        checkpoint=_checkpoint(config, schedule.total_steps or STEPS),
        profile=_profile(config, schedule.total_steps or STEPS, devices(parallel)),
        launch=replace(
            config.launch,
            nodes=1,
            node_rank=None,
            master_addr="127.0.0.1",
            workers=None,
            devices_per_node=devices(parallel),
            hosts=config.launch.hosts[:1],
            rank_table=None,
        ),
        native=_native(config.native),
    )
    if not npus:
        small = _on_cpu(small)
    return small, tuple(changes(config, small))


def devices(parallel: ParallelConfig) -> int:
    """Devices of a rehearsal's mesh."""
    axes = parallel.model_parallel * parallel.context_parallel * parallel.pipeline_stage
    return axes * (parallel.data_parallel or (2 if parallel.planned else 1))


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
        data_parallel=None if given.planned else 2,
        global_batch_size=None if given.global_batch_size is None else min(given.global_batch_size, 8),
        ulysses_degree_in_cp=_two(given.ulysses_degree_in_cp),
        model_parallel=_two(given.model_parallel),
        context_parallel=_two(given.context_parallel),
        expert_parallel=expert,
        micro_batch_num=given.pipeline_stage * min(per_stage, 2) if given.pipeline_stage > 1 else min(given.micro_batch_num, 2),
        gradient_accumulation_steps=min(given.gradient_accumulation_steps, 2),
        optimizer_weight_shard_size=None if given.optimizer_weight_shard_size is None else 2,
    )


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
    """So few steps; warm-up and decay keep their share of them, and a step where they have any."""
    given = config.schedule
    whole, total = given.total_steps, min(given.total_steps or STEPS, STEPS)

    def scaled(steps: int | None) -> int | None:
        if not steps:
            return steps
        # of steps that are not known: a quarter at the most, so that warm-up and decay leave some
        return min(total, math.ceil(steps * total / whole) if whole else min(steps, total // 4))

    warmup, decay = scaled(given.warmup_steps), scaled(given.decay_steps)
    if (
        warmup is None
        and int(total * given.warmup_ratio) == 0
        and (whole is None or int(whole * given.warmup_ratio))
        and given.warmup_ratio
    ):
        warmup = 1  # the ratio of so few steps is none
    if warmup == total > 1 and whole and (given.warmup_steps or 0) < whole:
        warmup = total - 1
    if decay and warmup and (not whole or (given.decay_steps or 0) + (given.warmup_steps or 0) <= whole):
        decay = max(1, min(decay, total - warmup))  # both were rounded up
    return replace(given, total_steps=total, epochs=1, warmup_steps=warmup, decay_steps=decay)


def _checkpoint(config: RunConfig, total: int) -> CheckpointConfig:
    """Saved at half of the steps where it is saved by steps; nothing is resumed."""
    given = config.checkpoint
    save = given.save_steps if given.save_steps is None else min(given.save_steps, max(1, total // 2))
    return replace(given, resume="never", load=None, save_steps=save)


def _profile(config: RunConfig, total: int, ranks: int) -> ProfileConfig:
    """As many steps as before from where there are that many, and of the ranks that are left."""
    given, whole = config.profile, config.schedule.total_steps or 0
    if not given.enabled or given.start > given.stop or (whole and given.start > whole):
        return given
    start = given.start if given.start <= total // 2 else max(1, total // 2)
    kept = None if given.ranks is None else [rank for rank in given.ranks if rank < ranks] or [0]
    return replace(given, start=start, stop=min(start + given.stop - given.start, max(total, start)), ranks=kept)


def _native(given: dict[str, Any]) -> dict[str, Any]:
    """What is passed through, without the mesh, which is another one."""
    mesh = given.get("parallel_config")
    if not isinstance(mesh, dict):
        return given
    left = {key: value for key, value in mesh.items() if key not in _AXES}
    return {key: left if key == "parallel_config" else value for key, value in given.items() if key != "parallel_config" or left}


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
        # the section `checkpoint` does not save what several replicas hold
        checkpoint=replace(config.checkpoint, style=None, format=None) if replicas > 1 else config.checkpoint,
        profile=_profile(config, config.schedule.total_steps or STEPS, replicas),
        native=_of_no_device(config.native),
        launch=replace(config.launch, mode="auto", devices_per_node=replicas),
    )


def _of_no_device(given: dict[str, Any]) -> dict[str, Any]:
    """What is passed through, without the device."""
    context = given.get("context")
    if not isinstance(context, dict) or "device_target" not in context:
        return given
    return {**given, "context": {key: value for key, value in context.items() if key != "device_target"}}


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
