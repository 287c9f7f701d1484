"""The rule that a run fits its devices, by the planner's estimate."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import Derived
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.memory import GIB, Memory, price
from mindrecipe.plan.of_run import job_of
from mindrecipe.rules.mesh import is_refused
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule

_DOUBT = 0.15  # of the device's memory: published runs that did fit were estimated up to an eighth above it


@rule(
    "memory.estimate",
    "warning",
    "the ranks would run out of memory, the largest stage first, once the graph is compiled",
    outcome="stops",
    source="plan/memory.py, which agrees with MindSpore's dry runs and published runs within 10 % (docs/plan.md)",
    reads="*",
    fails=["+model=llama2_13b parallel=semi_auto amp=O2", f"{LARGE} dataset.batch_size=8"],
    passes=[LARGE, TINY],
)
def estimate(d: Derived) -> Iterator[Problem]:
    """A rank is estimated to need more memory than the device has, by more than the estimate may be wrong."""
    held = None if is_refused(d) else _held(d.config, d)
    if held is None or held.headroom >= -_DOUBT:
        return
    peak = held.peak
    stage = f" (stage {peak.stage} of {len(held.stages)})" if len(held.stages) > 1 else ""
    yield Problem(
        f"estimated memory of a rank: {peak.total / GIB:.0f} GiB{stage}, and {d.hardware.title} has {held.capacity / GIB:.0f}",
        ("recompute.policy", "parallel.model_parallel", "memory.max_device_memory"),
        _mend(d),
    )


def _held(config: RunConfig, d: Derived) -> Memory | None:
    """The estimate; None where nothing is estimated, or another rule objects to the layout."""
    if d.hardware.target == "CPU":
        return None
    try:
        return price(job_of(config, d.family, d.hardware, d.device_num))
    except CannotPrice:
        return None


def _mend(d: Derived) -> str:
    """The first of the usual remedies with which it fits, the least costly first; where none does, what else there is."""
    for overrides, changed in _remedies(d.config, d.device_num):
        held = _held(changed, d)
        if held is not None and held.fits:
            return overrides
    return "launch.nodes=<more hosts>; or a layout of `mindrecipe plan --search` with these overrides"


def _remedies(config: RunConfig, devices: int) -> Iterator[tuple[str, RunConfig]]:
    """Overrides, and what becomes of ``config`` with them: sharded states, recomputation, then more of the model split, with both."""
    sharded = _with(config, "parallel", optimizer_parallel=True)
    if config.parallel.mode == "semi_auto":
        yield "parallel.optimizer_parallel=true", sharded
    full = _with(config, "recompute", policy="full")
    yield "recompute=full", full
    if config.parallel.mode != "semi_auto":
        return
    for stages, split in itertools.product((1, 2, 4, 8), (1, 2, 4, 8)):
        if _splits(config, devices, stages, split):
            values = {"model_parallel": split, "pipeline_stage": stages, "micro_batch_num": 4 * stages if stages > 1 else 1}
            words = [f"parallel.{key}={value}" for key, value in values.items()] + ["parallel.data_parallel=null", "recompute=full"]
            data = devices // (stages * split * config.parallel.context_parallel)
            yield " ".join(words), _with(_with(sharded, "parallel", data_parallel=data, **values), "recompute", policy="full")


def _splits(config: RunConfig, devices: int, stages: int, split: int) -> bool:
    """Whether the model divides by these and no less is split than now."""
    model, parallel = config.model, config.parallel
    held = (model.num_heads, model.num_kv_heads or model.num_heads, model.vocab_size, config.launch.devices_per_node or 1)
    return (
        split >= parallel.model_parallel
        and stages >= parallel.pipeline_stage
        and devices % (stages * split * parallel.context_parallel) == 0
        and model.num_layers % stages == 0
        and all(size % split == 0 for size in held)
    )


def _with(config: RunConfig, section: str, **values: object) -> RunConfig:
    return dataclasses.replace(config, **{section: dataclasses.replace(getattr(config, section), **values)})
