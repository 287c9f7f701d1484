"""parallel.planned: the layout of a run taken from the search, with what the user set kept as it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from mindrecipe.config.keys import value_of
from mindrecipe.config.schema import ParallelConfig, RecomputeConfig, RunConfig
from mindrecipe.models.family import Family
from mindrecipe.models.hardware import Hardware
from mindrecipe.plan.balance import offset_of
from mindrecipe.plan.job import CannotPrice, Job, Policy
from mindrecipe.plan.of_run import job_of
from mindrecipe.plan.search import Found, require_layout, search
from mindrecipe.plan.space import Space

#: our knob -> the axis of the space that it pins where it was set
_PINS = {
    "parallel.data_parallel": "data_parallel",
    "parallel.model_parallel": "tensor_parallel",
    "parallel.pipeline_stage": "pipeline",
    "parallel.context_parallel": "context_parallel",
    "parallel.pipeline_interleave": "interleave",
    "parallel.optimizer_parallel": "sharded",
    "parallel.use_seq_parallel": "sequence_parallel",
    "dataset.batch_size": "micro_batch",
    "recompute.policy": "policy",
    "model.offset": "offset",
}


def search_for(
    config: RunConfig,
    family: Family,
    hardware: Hardware,
    devices: int,
    global_batch: int | None = None,
    *,
    pinned: dict[str, Any] | None = None,
    top: int = 5,
) -> tuple[Found, Space, Job]:
    """Search the layouts of a configuration; axes in ``pinned`` stay. CannotPrice for what is not planned for."""
    if config.parallel.mode == "standalone":
        # nothing was said of a mesh: all devices of the nodes
        launch = config.launch
        per_node = hardware.devices_per_node if launch.workers is None and launch.devices_per_node in (None, 1) else launch.devices_per_node
        devices = launch.nodes * (per_node or 1)
        config = replace(config, launch=replace(launch, devices_per_node=per_node))
    plain = replace(config.parallel, **_plain_axes())
    batch = global_batch or config.parallel.global_batch_size or max(devices, config.dataset.batch_size * devices)
    bare = replace(
        config,
        parallel=replace(plain, mode="semi_auto", data_parallel=devices),
        model=replace(config.model, offset=0),
        recompute=_no_layers(config),
    )
    # with gradients accumulated, as every layout of a large batch has them
    base = job_of(replace(bare, parallel=replace(bare.parallel, gradient_accumulation_steps=2)), family, hardware, devices)
    # legacy models with flash attention save nothing by them (of_run.recompute_of)
    skipped: tuple[Policy, ...] = ("selective", "attention") if family.architecture == "legacy" and base.dims.flash else ()
    space = Space(
        devices=devices,
        global_batch=batch,
        headroom=config.memory.headroom,
        pinned=pinned or {},
        repeats_kv_heads=family.repeats_kv_heads,
        skipped=skipped,
    )
    return search(base, space, top), space, base


def planned(config: RunConfig, family: Family, hardware: Hardware, devices: int, kept: Collection[str] = ()) -> RunConfig:
    """``config`` laid out as the best layout found says, but for what was set: what is not the default, and ``kept``.

    CannotPrice where there is none.
    """
    pinned = _pinned(config, kept)
    found, _, base = search_for(config, family, hardware, devices, pinned=pinned, top=1)
    if not found.considered:
        told = ", ".join(f"{key}={pinned[axis]}" for key, axis in _PINS.items() if axis in pinned)
        raise CannotPrice(f"no mesh of {devices} devices has what was set: {told}")
    job = require_layout(found, base).job
    lay = job.layout
    parallel = replace(
        config.parallel,
        mode="semi_auto",
        data_parallel=lay.data_parallel,
        model_parallel=lay.tensor_parallel,
        pipeline_stage=lay.pipeline,
        context_parallel=lay.context_parallel,
        micro_batch_num=lay.micro_batches if lay.pipeline > 1 else 1,
        gradient_accumulation_steps=1 if lay.pipeline > 1 else lay.micro_batches,
        pipeline_interleave=lay.interleave,
        optimizer_parallel=lay.sharding != "none",
        use_seq_parallel=lay.sequence_parallel,
    )
    return replace(
        config,
        parallel=parallel,
        model=replace(config.model, offset=offset_of(job)),
        recompute=replace(config.recompute, policy=pinned.get("policy", job.recompute.policy)),
        dataset=replace(config.dataset, batch_size=lay.micro_batch),
    )


def _pinned(config: RunConfig, kept: Collection[str]) -> dict[str, Any]:
    """What was set: it stays. A model.offset that is not 0 is of stages that are still to be found: a rule refuses it."""
    if config.recompute.policy == "per_stage":
        raise CannotPrice("recompute=per_stage names layers of stages that the search has still to find")
    defaults, pinned = RunConfig(), dict[str, Any]()
    for key, axis in _PINS.items():
        value = value_of(config, key)
        if value is not None and (value != value_of(defaults, key) or key in kept):
            pinned[axis] = value
    return pinned


def _plain_axes() -> dict[str, Any]:
    """parallel.* as the search begins with it."""
    defaults, reset = ParallelConfig(), ("micro_batch_num", "gradient_accumulation_steps", "pipeline_scheduler", "optimizer_parallel")
    axes = [key.removeprefix("parallel.") for key in _PINS if key.startswith("parallel.")]
    return {name: getattr(defaults, name) for name in {*axes, *reset}}


def _no_layers(config: RunConfig) -> RecomputeConfig:
    return replace(config.recompute, policy="none", layers=None)
