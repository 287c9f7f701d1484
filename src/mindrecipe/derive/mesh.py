"""Devices and batches: from what was asked for to device_num, data_parallel and the global batch.

The batch arithmetic is mindformers' own (trainer/base_trainer.py, _check_global_batch_size_for_auto_parallel), resets
included: outside semi_auto and auto it ignores the mesh, and with one stage it ignores micro_batch_num.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindrecipe.config.schema import LaunchConfig, ModelConfig, ParallelConfig
from mindrecipe.models.hardware import Hardware

SHARDED = ("semi_auto", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sequences of one optimizer step, over all devices and as the loader of one rank reads them."""

    global_batch_size: int
    per_loader: int
    num_shards: int
    micro_batch_num: int
    gradient_accumulation_steps: int


def complete_launch(launch: LaunchConfig, parallel: ParallelConfig, hardware: Hardware) -> LaunchConfig:
    """Fill devices_per_node and node_rank; `workers` is one node with so many devices, `hosts` (of ssh) are so many nodes."""
    if launch.hosts and launch.mode == "ssh":
        named = launch.hosts[0].rpartition("@")[2] if len(launch.hosts) > 1 else launch.master_addr
        launch = replace(launch, nodes=launch.nodes if launch.nodes > 1 else len(launch.hosts), master_addr=named)
    per_node = launch.devices_per_node or launch.workers  # a rule reports two that differ
    if per_node is None:
        per_node = 1 if parallel.mode == "standalone" else hardware.devices_per_node
    rank = launch.node_rank if launch.node_rank is not None else (0 if launch.nodes == 1 else None)
    return replace(launch, devices_per_node=per_node, node_rank=rank)


def device_num(launch: LaunchConfig) -> int:
    """Devices of the whole job, from a completed launch."""
    return launch.nodes * (launch.devices_per_node or 1)


def complete_parallel(parallel: ParallelConfig, model: ModelConfig, devices: int) -> ParallelConfig:
    """Fill data_parallel with what the other axes leave of ``devices`` (rounded down: a rule reports a rest), and vocab_emb_dp."""
    axes = parallel.model_parallel * parallel.context_parallel * parallel.pipeline_stage
    data_parallel = parallel.data_parallel
    if data_parallel is None:
        data_parallel = max(1, devices // axes) if parallel.mode in SHARDED else devices
    splits = parallel.model_parallel > 1 and model.vocab_size % parallel.model_parallel == 0
    embedding = parallel.vocab_emb_dp if parallel.vocab_emb_dp is not None else not (splits or parallel.pipeline_stage > 1)
    return replace(parallel, data_parallel=data_parallel, vocab_emb_dp=embedding)


def is_v_shaped(parallel: ParallelConfig) -> bool:
    """Whether zero_bubble_v runs the pipeline, two chunks a stage: the second comes back from the last stage to the first."""
    sharded = parallel.mode in SHARDED and parallel.pipeline_stage > 1
    return sharded and parallel.pipeline_scheduler == "zero_bubble_v" and parallel.pipeline_interleave == 2


def batch_of(parallel: ParallelConfig, batch_size: int, devices: int) -> Batch:
    """The batch that will really run, for a completed ``parallel``."""
    interleave = parallel.micro_batch_interleave_num
    data_parallel = parallel.data_parallel or 1
    if parallel.mode not in SHARDED:
        return Batch(
            global_batch_size=batch_size * devices,
            per_loader=batch_size,
            num_shards=devices,
            micro_batch_num=1,
            gradient_accumulation_steps=1,
        )
    if parallel.pipeline_stage > 1:
        micro, accumulate = parallel.micro_batch_num, 1
    else:
        micro, accumulate = 1, parallel.gradient_accumulation_steps
    per_replica = batch_size * micro * interleave * accumulate
    whole = per_replica * data_parallel
    return Batch(
        global_batch_size=whole,
        per_loader=whole if parallel.full_batch else per_replica,
        num_shards=1 if parallel.full_batch else data_parallel,
        micro_batch_num=micro,
        gradient_accumulation_steps=accumulate,
    )
