"""The rule that a run fits its devices, by the planner's estimate."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from mindrecipe.config.keys import value_of, with_value
from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import Derived, derive
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.memory import GIB, Memory, price
from mindrecipe.plan.of_run import job_of
from mindrecipe.rules.mesh import is_refused
from mindrecipe.rules.registry import LARGE, RULES, TINY, Problem, rule

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


#: remedies that are no way out for this run: what they would be refused for
_OF_A_LAYOUT = ("amp", "config", "mesh", "model", "optimizer", "recompute", "native")
_ELSE = "launch.nodes=<more hosts>; or a layout of `mindrecipe plan --search` with these overrides"


def _mend(d: Derived) -> str:
    """The first of the usual remedies with which it fits, and is refused for nothing new; where there is none, what else there is."""
    if d.written.parallel.planned:
        return _ELSE  # the search has gone through them
    before = _refusals(d)
    for remedy in _remedies(d):
        changes = {key: value for key, value in remedy.items() if value != value_of(d.written, key)}
        written = d.written
        for key, value in changes.items():
            written = with_value(written, key, value)
        changed = derive(written, d.machine, d.dataset)
        held = _held(changed.config, changed)
        if held is not None and held.fits and _refusals(changed) <= before:
            return " ".join(
                f"{_NAMES.get(key, key)}={json.dumps(value) if not isinstance(value, str) else value}" for key, value in changes.items()
            )
    return _ELSE


def _refusals(d: Derived) -> set[str]:
    """The rules that refuse the layout of a run."""
    concerned = [each for each in RULES.values() if each.name != "memory.estimate" and each.name.partition(".")[0] in _OF_A_LAYOUT]
    return {each.name for each in concerned if any((problem.severity or each.severity) == "error" for problem in each.check(d))}


#: knobs that are chosen as options of their group
_NAMES = {"recompute.policy": "recompute"}
#: whole layers are computed again: what only the other policies take is given up
_FULL: dict[str, object] = {"recompute.policy": "full", "recompute.layers": None, "recompute.patterns": None}


def _remedies(d: Derived) -> Iterator[dict[str, object]]:
    """Knob -> value: sharded states, recomputation, then more of the model split, with both; the least costly first."""
    config = d.config
    if config.parallel.mode == "semi_auto":
        yield {"parallel.optimizer_parallel": True}
    yield _FULL
    if config.parallel.mode != "semi_auto":
        return
    for stages, split in itertools.product((1, 2, 4, 8), (1, 2, 4, 8)):
        if _splits(config, d.device_num, stages, split):
            piped: dict[str, object] = {"parallel.micro_batch_num": 4 * stages, "parallel.gradient_accumulation_steps": 1}
            other: dict[str, object] = {"model.offset": 0}  # it is a number for each of the stages there were
            yield {
                "parallel.model_parallel": split,
                "parallel.pipeline_stage": stages,
                "parallel.data_parallel": None,
                **(piped if stages > 1 else {}),
                **(other if stages != config.parallel.pipeline_stage else {}),
                "parallel.optimizer_parallel": True,
                **_FULL,
            }


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
