"""Knobs that nothing reads in a run: one line each, with when it is read and who would read it.

Only what was written counts: a value that is the schema's default says nothing, nor does one that stands in the file of a model
(conf/model), which is written for every run of that model. Knobs that have a rule of their own (the axes of the mesh outside
semi_auto and auto, the arguments of each schedule, ...) keep it, and are not here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mindrecipe.config.findings import Severity
from mindrecipe.config.keys import knobs, value_of
from mindrecipe.config.schema.training import SCHEDULES
from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.registry import TINY, Problem, rule


@dataclass(frozen=True, slots=True)
class Reader:
    """``read``: whether anything reads the knob. ``only``: where it is read, after "it is read only". ``mend``: null: its default."""

    read: Callable[[Derived], bool]
    only: str
    mend: str | None = None
    severity: Severity = "error"


def _sharded(d: Derived) -> bool:
    return d.config.parallel.mode in SHARDED


def _context(d: Derived) -> bool:
    return _sharded(d) and d.config.parallel.context_parallel > 1


def _on_ascend(d: Derived) -> bool:
    return d.hardware.target != "CPU"


def _feed_forward(d: Derived) -> bool:
    """Llama derives the width of its feed-forward layer; a custom model reads what ``model.keys`` names."""
    return d.family.name.startswith("custom") or (d.family.name == "llama" and d.written.model.intermediate_size is None)


def _warms_up(d: Derived) -> bool:
    s = d.written.schedule
    return s.type not in ("cosine_annealing", "cosine_annealing_restarts") and bool(s.warmup_steps or s.warmup_ratio)


def _builds_data(d: Derived) -> bool:
    return d.config.dataset.source in ("stdlib", "text")


def _recomputes(d: Derived) -> bool:
    return d.config.recompute.policy != "none"


def _decays(d: Derived) -> bool:
    return d.config.schedule.type in ("wsd", "constant_cooldown")


def _simulates(d: Derived) -> bool:
    return d.config.launch.mode == "simulate"


def _known_schedule(d: Derived) -> bool:
    """One of yours gets what schedule.extra says; a name that is none has a rule of its own."""
    return d.config.schedule.type in SCHEDULES


def _saves(d: Derived) -> bool:
    c = d.config.checkpoint
    return c.save_final or c.save_steps is not None or c.save_minutes is not None


def _restarts(d: Derived) -> bool:
    return d.config.launch.max_restarts > 0


def _looks_for_spikes(d: Derived) -> bool:
    return (d.config.watch.loss_spike, d.config.watch.grad_spike) != ("off", "off")


def _collective(d: Derived) -> bool:
    return _on_ascend(d) and d.device_num > 1 and not _simulates(d)


_NO_HCCL = "by several ranks on Ascend devices"
_CPU = "on Ascend, and this run is for the CPU"

UNREAD: Mapping[str, Reader] = {
    # mindformers core/context/parallel.py, models/llama, parallel_core/transformer_config.py
    "parallel.context_parallel_algo": Reader(_context, "with context_parallel > 1 in semi_auto and auto"),
    "parallel.ulysses_degree_in_cp": Reader(
        lambda d: _context(d) and (d.config.parallel.context_parallel_algo == "hybrid_cp" or d.family.architecture == "mcore"),
        "with context_parallel > 1 and context_parallel_algo=hybrid_cp, and by mcore models",
    ),
    "parallel.global_batch_size": Reader(lambda d: d.written.parallel.planned, "with parallel=planned: elsewhere it follows from the mesh"),
    "parallel.search_mode": Reader(lambda d: d.config.parallel.mode == "auto", "with parallel=auto"),
    "parallel.full_batch": Reader(_sharded, "with parallel=semi_auto and auto: elsewhere every rank reads its own shard"),
    "parallel.enable_alltoall": Reader(_sharded, "with parallel=semi_auto and auto"),
    # set on the weights in any mode, and read by what reduces gradients: mindspore nn/wrap/grad_reducer.py:71
    "parallel.gradient_aggregation_group": Reader(lambda d: d.config.parallel.mode != "standalone", "where several devices train"),
    # with the CPU it has a rule of its own
    "parallel.optimizer_parallel": Reader(
        lambda d: d.config.parallel.mode != "standalone" or not _on_ascend(d), "where several devices train"
    ),
    "parallel.vocab_emb_dp": Reader(
        lambda d: _sharded(d) or d.family.architecture == "mcore", "with parallel=semi_auto and auto: elsewhere nothing is split"
    ),
    # outside semi_auto and auto it has a rule of its own
    "parallel.expert_parallel": Reader(
        lambda d: not _sharded(d) or d.family.name.startswith("custom"), "by models with experts, and this family has none"
    ),
    "model.architecture": Reader(lambda d: d.config.model.family == "custom", "with model.family=custom: other families have one"),
    "model.multiple_of": Reader(_feed_forward, "by llama, where intermediate_size is null"),
    "model.ffn_dim_multiplier": Reader(_feed_forward, "by llama, where intermediate_size is null"),
    # with true on CPU it has a rule of its own
    "model.fused_rms_norm": Reader(
        lambda d: d.family.name != "qwen3" or (bool(d.config.model.fused_rms_norm) and not d.hardware.fused_kernels),
        "by llama: mcore models have one norm",
    ),
    "dataset.heldout_fraction": Reader(
        lambda d: _builds_data(d) and not d.config.dataset.heldout_files, "where text is built into a data set, without heldout_files"
    ),
    "dataset.text_field": Reader(lambda d: d.config.dataset.source == "text", "with dataset=text"),
    "dataset.tokenizer": Reader(_builds_data, "where text is built into a data set: ready MindRecords have their ids"),
    "dataset.tokenizer_vocab_size": Reader(
        lambda d: _builds_data(d) and d.config.dataset.tokenizer == "bpe", "where a tokenizer is trained: dataset.tokenizer=bpe over text"
    ),
    "amp.dtype": Reader(
        lambda d: d.config.amp.level != "O0" or d.config.amp.dtype in _dtypes(d), "with a level that computes in half: amp=O1, O2 or O3"
    ),
    "amp.loss_scale_value": Reader(lambda d: d.loss_scale.kind != "none", "where the loss is scaled: loss_scale=fixed or dynamic"),
    "amp.loss_scale_factor": Reader(lambda d: d.loss_scale.kind == "dynamic", "with a dynamic loss scale"),
    "amp.loss_scale_window": Reader(lambda d: d.loss_scale.kind == "dynamic", "with a dynamic loss scale"),
    "recompute.mp_comm_recompute": Reader(_recomputes, "where something is recomputed"),
    "recompute.parallel_optimizer_comm_recompute": Reader(_recomputes, "where something is recomputed"),
    # in mcore models it has a rule of its own
    "recompute.recompute_slice_activation": Reader(
        lambda d: _recomputes(d) or d.family.architecture == "mcore", "where something is recomputed"
    ),
    "memory.max_device_memory": Reader(_on_ascend, _CPU, severity="warning"),
    "memory.headroom": Reader(
        lambda d: _on_ascend(d) and d.written.memory.max_device_memory is None,
        "on Ascend, where max_device_memory is null",
        severity="warning",
    ),
    "memory.mempool_block_size": Reader(_on_ascend, _CPU, severity="warning"),
    "device.memory_gb": Reader(_on_ascend, _CPU, severity="warning"),
    "device.precision_mode": Reader(_on_ascend, _CPU, severity="warning"),
    "device.parallel_speed_up": Reader(_on_ascend, _CPU, severity="warning"),
    "schedule.epochs": Reader(
        lambda d: d.written.schedule.total_steps is None, "where total_steps is null", mend="schedule.epochs=1", severity="warning"
    ),
    "schedule.warmup_ratio": Reader(lambda d: d.written.schedule.warmup_steps is None, "where warmup_steps is null", severity="warning"),
    "schedule.warmup_lr_init": Reader(_warms_up, "by a schedule that warms up, with warmup_steps or warmup_ratio"),
    # constant and linear have a rule of their own, as have the next two with schedules of mindformers
    "schedule.lr_end": Reader(_known_schedule, "by schedules of mindformers: one of yours takes schedule.extra"),
    "schedule.num_cycles": Reader(_known_schedule, "by schedules of mindformers: one of yours takes schedule.extra"),
    "schedule.power": Reader(_known_schedule, "by schedules of mindformers: one of yours takes schedule.extra"),
    "schedule.decay_steps": Reader(_known_schedule, "by schedules of mindformers: one of yours takes schedule.extra"),
    "schedule.decay_ratio": Reader(_decays, "by wsd and constant_cooldown"),
    "checkpoint.keep": Reader(_saves, "where checkpoints are saved", severity="warning"),
    "checkpoint.async_save": Reader(_saves, "where checkpoints are saved", severity="warning"),
    "evaluate.max_batches": Reader(lambda d: d.config.evaluate.at_end, "with evaluate=at_end", severity="warning"),
    "launch.mode": Reader(
        lambda d: d.device_num > 1 or d.config.launch.mode != "msrun",
        "where there are several ranks: one needs no msrun",
        severity="warning",
    ),
    "launch.simulate_ranks": Reader(_simulates, "with launch=simulate"),
    "launch.simulate_at_once": Reader(_simulates, "with launch=simulate"),
    "launch.simulate_again": Reader(_simulates, "with launch=simulate"),
    "launch.dry_run": Reader(lambda d: not _simulates(d), "where a job is launched: launch=simulate starts none"),
    "launch.freeze_only": Reader(
        lambda d: not _simulates(d) and not d.config.launch.dry_run, "where a job is launched, and launch.dry_run=false: that makes nothing"
    ),
    "launch.hosts": Reader(lambda d: d.config.launch.mode == "ssh", "with launch=ssh", mend="launch.hosts=[]"),
    "launch.submit": Reader(lambda d: d.config.launch.mode == "slurm", "with launch=slurm"),
    "launch.sbatch_args": Reader(lambda d: d.config.launch.mode == "slurm", "with launch=slurm", mend="launch.sbatch_args=[]"),
    "launch.msrun_args": Reader(lambda d: d.device_num > 1, "where there are several ranks", mend="launch.msrun_args=[]"),
    "launch.bind_core": Reader(lambda d: d.device_num > 1, "where there are several ranks"),
    "launch.rank_table": Reader(_collective, _NO_HCCL),
    "launch.hccl_connect_timeout": Reader(_collective, _NO_HCCL, severity="warning"),
    "launch.hccl_exec_timeout": Reader(_collective, _NO_HCCL, severity="warning"),
    "launch.hccl_buffsize": Reader(_collective, _NO_HCCL, severity="warning"),
    "launch.hccl_deterministic": Reader(_collective, _NO_HCCL, severity="warning"),
    "launch.restart_window": Reader(_restarts, "with launch.max_restarts above 0"),
    "launch.restart_backoff": Reader(_restarts, "with launch.max_restarts above 0"),
    "launch.stall_min": Reader(lambda d: d.config.launch.stall_timeout is not None, "with a launch.stall_timeout"),
    "watch.loss_spike_factor": Reader(lambda d: d.config.watch.loss_spike != "off", "with a watch.loss_spike"),
    "watch.grad_spike_factor": Reader(lambda d: d.config.watch.grad_spike != "off", "with a watch.grad_spike"),
    "watch.grad_norm_limit": Reader(lambda d: d.config.watch.grad_spike == "skip", "with watch.grad_spike=skip"),
    "watch.window": Reader(_looks_for_spikes, "by watch.loss_spike and grad_spike"),
    "watch.slow_rank_share": Reader(lambda d: d.config.watch.slow_rank != "off", "with a watch.slow_rank"),
    "watch.disk_gb": Reader(lambda d: d.config.watch.disk != "off", "with a watch.disk"),
    "profile.start": Reader(lambda d: d.config.profile.enabled, "with profile=steps"),
    "profile.stop": Reader(lambda d: d.config.profile.enabled, "with profile=steps"),
    "profile.ranks": Reader(lambda d: d.config.profile.enabled, "with profile=steps"),
    "profile.level": Reader(lambda d: d.config.profile.enabled, "with profile=steps"),
    "profile.memory": Reader(lambda d: d.config.profile.enabled, "with profile=steps"),
}


@rule(
    "config.unread",
    "error",
    "whoever wrote it expects something of it, and nothing would come",
    outcome="ignored",
    source="lower/, and what mindformers reads of it (each knob in rules/unread.py)",
    reads="*",
    fails=[f"{TINY} amp.dtype=bfloat16"],
    passes=[f"{TINY} amp.dtype=auto"],
)
def unread(d: Derived) -> Iterator[Problem]:
    """A knob is set that nothing reads in this run."""
    for key in unread_keys(d):
        reader, default = UNREAD[key], knobs()[key].default
        yield Problem(
            f"{key}={_text(value_of(d.written, key))} has no effect: it is read only {reader.only}",
            (key,),
            reader.mend or shlex.quote(f"{key}={_text(default)}"),
            # a native YAML always says more than is read: what was imported stays as it was
            "warning" if d.config.run.imported_from else reader.severity,
            by_hand=True,
        )


def unread_keys(d: Derived) -> list[str]:
    """Knobs that are not at their defaults, and that nothing reads."""
    return [key for key, reader in UNREAD.items() if value_of(d.written, key) != knobs()[key].default and not reader.read(d)]


def _dtypes(d: Derived) -> tuple[str | None, ...]:
    amp = d.config.amp
    return (amp.compute_dtype, amp.param_dtype, amp.layernorm_dtype, amp.softmax_dtype, amp.rotary_dtype)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
