"""Override, then derive, then check: everything that follows from what was written, computed once, after the last override.

Deriving never fails: what does not fit together is computed as well as it can be, and the rules say what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from mindrecipe.config.schema import DeviceConfig, ModelConfig, OptimizerConfig, RunConfig
from mindrecipe.data.spec import DataFacts
from mindrecipe.derive import mesh, precision
from mindrecipe.derive.machine import Machine
from mindrecipe.models.family import Family, family_of
from mindrecipe.models.hardware import CATALOGUE, Hardware

READERS = 2  # threads that read and batch, where nobody has said how many
#: knobs that parallel.planned finds values for; those that were set stay as they are
PLANNED = (
    "parallel.data_parallel",
    "parallel.model_parallel",
    "parallel.pipeline_stage",
    "parallel.context_parallel",
    "parallel.pipeline_interleave",
    "parallel.optimizer_parallel",
    "parallel.use_seq_parallel",
    "dataset.batch_size",
    "recompute.policy",
    "model.offset",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """What follows from a configuration. ``written`` is that configuration, ``config`` the same with every null filled that can be.

    ``device_reason`` says why device=auto became what it is. ``total_steps``, ``warmup_steps`` and ``steps_per_epoch``
    are None while the data set is not known. ``plan_fault``: why parallel.planned found no layout; ``kept``: what it was not to replace.
    ``peak_flops`` is FLOP/s of one device, None where no peak is published. ``parameters`` 0 and ``flops_per_token`` None: not known, of a
    custom model whose dimensions are not told.
    """

    config: RunConfig
    written: RunConfig = field(compare=False, repr=False)
    family: Family
    hardware: Hardware
    machine: Machine = field(compare=False, repr=False)
    device_reason: str | None
    device_num: int
    batch: mesh.Batch
    loss_scale: precision.LossScale
    parameters: int
    flops_per_token: float | None
    peak_flops: float | None
    steps_per_epoch: int | None
    total_steps: int | None
    warmup_steps: int | None
    dataset: DataFacts | None
    plan_fault: str | None = None
    kept: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def global_batch_size(self) -> int:
        """Sequences of one optimizer step."""
        return self.batch.global_batch_size

    @property
    def is_for_this_machine(self) -> bool:
        """Whether the machine that was looked at may be the one it runs on: none without NPUs is, of a recipe for them."""
        return _is_for(self.machine, self.hardware)

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step."""
        return self.batch.global_batch_size * self.config.model.seq_length


def derive(config: RunConfig, machine: Machine, dataset: DataFacts | None = None, kept: Collection[str] = ()) -> Derived:
    """Everything that follows from ``config`` on ``machine``, with ``dataset`` once it is known. ``config.model.family`` is known.

    ``kept``: of PLANNED, what was set though it is the default; what is not the default was set in any case.
    """
    family = family_of(config.model)
    model = family.complete(config.model)
    parameters = family.parameters(model)
    hardware, reason = choose_hardware(config, machine, parameters)
    model = _kernels(model, hardware, family)
    amp = precision.complete(config.amp, hardware, family)
    launch = mesh.complete_launch(config.launch, config.parallel, hardware)
    devices = mesh.device_num(launch)
    written, plan_fault = config, None
    if config.parallel.planned:
        config, plan_fault = _planned(replace(config, model=model, amp=amp, launch=launch), config, family, hardware, devices, kept)
        model = replace(model, offset=config.model.offset)
    parallel = mesh.complete_parallel(config.parallel, model, devices)
    if family.architecture == "mcore" and config.parallel.vocab_emb_dp is None:
        parallel = replace(parallel, vocab_emb_dp=False)  # mcore models always split it, and warn of the word
    batch = mesh.batch_of(parallel, config.dataset.batch_size, devices)
    peak = config.device.peak_tflops or hardware.peak_tflops(amp.compute_dtype or "float32")
    per_epoch = _steps_per_epoch(dataset, config.dataset.num_shards or batch.num_shards, batch.per_loader, config.dataset.drop_remainder)
    total = config.schedule.total_steps or (per_epoch * config.schedule.epochs if per_epoch else None)
    warmup = config.schedule.warmup_steps
    if warmup is None and total is not None:
        warmup = int(total * config.schedule.warmup_ratio)
    memory_gb = config.device.memory_gb or hardware.memory_gb
    resolved = replace(
        config,
        model=model,
        amp=amp,
        parallel=parallel,
        launch=launch,
        run=replace(config.run, name=config.run.name or model.name),
        dataset=replace(
            config.dataset,
            seed=config.run.seed if config.dataset.seed is None else config.dataset.seed,
            tokenizer_vocab_size=config.dataset.tokenizer_vocab_size or model.vocab_size,
            columns=config.dataset.columns or list(family.columns),
            num_parallel_workers=config.dataset.num_parallel_workers or _readers(machine, hardware),
        ),
        device=DeviceConfig(
            name=hardware.name,
            memory_gb=memory_gb,
            peak_tflops=peak,
            jit_level=config.device.jit_level,
            precision_mode=config.device.precision_mode,
            parallel_speed_up=config.device.parallel_speed_up,
        ),
        memory=replace(config.memory, max_device_memory=config.memory.max_device_memory or pool_size(memory_gb, config.memory.headroom)),
        checkpoint=replace(
            config.checkpoint, format=config.checkpoint.format or ("safetensors" if family.architecture == "mcore" else "ckpt")
        ),
        optimizer=_moments(config.optimizer),
        schedule=replace(config.schedule, total_steps=total, warmup_steps=warmup),
    )
    return Derived(
        config=resolved,
        written=written,
        plan_fault=plan_fault,
        kept=frozenset(kept),
        family=family,
        hardware=hardware,
        machine=machine,
        device_reason=reason,
        device_num=devices,
        batch=batch,
        loss_scale=precision.loss_scale(amp),
        parameters=parameters,
        flops_per_token=family.flops(model),
        peak_flops=peak * 1e12 if peak else None,
        steps_per_epoch=per_epoch,
        total_steps=total,
        warmup_steps=warmup,
        dataset=dataset,
    )


def _planned(
    completed: RunConfig, written: RunConfig, family: Family, hardware: Hardware, devices: int, kept: Collection[str]
) -> tuple[RunConfig, str | None]:
    """``written`` with the layout that the search finds for ``completed``, and why there is none."""
    from mindrecipe.plan.job import CannotPrice
    from mindrecipe.plan.planned import planned

    try:
        best = planned(completed, family, hardware, devices, kept)
    except CannotPrice as fault:
        return written, str(fault)
    model = replace(written.model, offset=best.model.offset)
    return replace(written, parallel=best.parallel, recompute=best.recompute, dataset=best.dataset, model=model), None


def choose_hardware(config: RunConfig, machine: Machine, parameters: int) -> tuple[Hardware, str | None]:
    """What device=auto means: the NPU of this machine; else Ascend 910B where a CPU can't do it; else the CPU. With the reason."""
    if config.device.name != "auto":
        return CATALOGUE[config.device.name], None
    target = CATALOGUE["ascend_910b"]
    if config.launch.mode == "simulate" and machine.npu not in CATALOGUE:
        return target, "MindSpore's dry run is of Ascend devices"
    if machine.npu in CATALOGUE:
        return CATALOGUE[machine.npu], "this machine has it"
    if machine.npu is not None:
        return target, "this machine has NPUs, and npu-smi does not tell of which kind"
    if config.parallel.planned or config.parallel.mode not in ("standalone", "data_parallel"):
        return target, f"parallel.mode={config.parallel.mode} needs NPUs"
    if 16 * parameters <= machine.memory_bytes:
        return CATALOGUE["cpu"], "this machine has no NPU"
    return target, f"{parameters / 1e9:.1f} billion parameters with their gradients and Adam states do not fit this machine's memory"


def _is_for(machine: Machine, hardware: Hardware) -> bool:
    return hardware.target == "CPU" or machine.npu is not None


def _readers(machine: Machine, hardware: Hardware) -> int:
    """MindSpore takes no more than the host has cores (rules/this_host.py)."""
    return min(READERS, machine.cpu_count or READERS) if _is_for(machine, hardware) else READERS


def pool_size(memory_gb: float | None, headroom: float) -> str | None:
    """MindSpore's string for the memory pool: the device's memory less ``headroom``, in whole GB (in hundredths below one)."""
    if memory_gb is None:
        return None
    size = memory_gb * (1 - headroom)
    return f"{math.floor(size)}GB" if size >= 1 else f"{max(0.01, math.floor(100 * size) / 100):.2f}GB"


def _kernels(model: ModelConfig, hardware: Hardware, family: Family) -> ModelConfig:
    fused = hardware.fused_kernels
    # mcore's other branch feeds a different layout: on CPU the worker puts an unfused attention in its place
    flash = fused or family.architecture == "mcore"
    return replace(
        model,
        use_flash_attention=flash if model.use_flash_attention is None else model.use_flash_attention,
        fused_rms_norm=fused if model.fused_rms_norm is None else model.fused_rms_norm,
    )


def _moments(optimizer: OptimizerConfig) -> OptimizerConfig:
    """Adam's moments where the optimizer has them; what others need goes through optimizer.extra."""
    if optimizer.type not in ("AdamW", "PmaAdamW"):
        return optimizer
    return replace(optimizer, betas=optimizer.betas or [0.9, 0.95], eps=optimizer.eps or 1.0e-8)


def _steps_per_epoch(dataset: DataFacts | None, num_shards: int, per_loader: int, drop_remainder: bool) -> int | None:
    """MindSpore pads shards by repeating (ceil), then a rank batches its shard."""
    if dataset is None or dataset.train_rows == 0:
        return None
    shard = math.ceil(dataset.train_rows / num_shards)
    return shard // per_loader if drop_remainder else math.ceil(shard / per_loader)
