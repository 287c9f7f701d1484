"""How much disk the checkpoints of a run take."""

from __future__ import annotations

from mindrecipe.derive import Derived

#: bytes of a checkpoint for each parameter: fp32 weights and Adam's two moments
_CHECKPOINT_BYTES = 12


def checkpoint_bytes(derived: Derived) -> int:
    """About what the checkpoints of one host take: each rank writes its share of weights and optimizer states."""
    given = derived.config.checkpoint
    if given.save_steps is not None and derived.total_steps is not None:
        copies = min(given.keep + 1, derived.total_steps // given.save_steps + 1)
    elif given.save_steps is not None or given.save_minutes is not None:
        copies = given.keep + 1
    else:
        copies = 1 if given.save_final else 0
    return copies * (derived.config.launch.devices_per_node or 1) * one_checkpoint_bytes(derived)


def one_checkpoint_bytes(derived: Derived) -> int:
    """What one rank writes for one checkpoint: its stage's and its tensor-parallel share, and with sharded optimizer states its share
    of the replicas'.
    """
    mesh = derived.config.parallel
    shares = mesh.model_parallel * mesh.pipeline_stage
    if mesh.optimizer_parallel:
        shares *= mesh.optimizer_weight_shard_size or mesh.data_parallel or 1
    return _CHECKPOINT_BYTES * derived.parameters // shares
