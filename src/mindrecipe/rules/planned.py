"""Rules of parallel=planned: what the search for a layout finds, and what it decides."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.rules.registry import TINY, Problem, rule


@rule(
    "mesh.planned",
    "error",
    "parallel=planned takes the layout from the search, and there is none to take",
    outcome="stops",
    source="mindrecipe plan --search",
    reads="parallel: planned",
    fails=["+model=llama2_70b parallel=planned amp=O2"],
    passes=["+model=llama2_7b parallel=planned amp=O2", TINY],
)
def planned(d: Derived) -> Iterator[Problem]:
    """The search finds no layout for a planned run."""
    if d.written.parallel.planned and d.plan_fault is not None:
        yield Problem(
            f"parallel=planned on {d.device_num} x {d.hardware.title}: {d.plan_fault}",
            ("parallel.planned", "launch.nodes", "launch.devices_per_node"),
            "launch.nodes=<more hosts> launch.master_addr=<address of the first host>" if "fits" in d.plan_fault else "parallel=semi_auto",
        )


@rule(
    "mesh.planned_sets",
    "error",
    "a planned layout keeps the global batch, and these follow from it",
    outcome="ignored",
    source="mindrecipe plan/planned.py",
    reads="parallel: gradient_accumulation_steps micro_batch_num planned",
    fails=["+model=llama2_7b parallel=planned amp=O2 parallel.micro_batch_num=4"],
    passes=["+model=llama2_7b parallel=planned amp=O2"],
)
def planned_sets(d: Derived) -> Iterator[Problem]:
    """A planned run sets what the plan decides."""
    written = d.written.parallel
    if not written.planned:
        return
    for name in ("micro_batch_num", "gradient_accumulation_steps"):
        if getattr(written, name) != 1:
            yield Problem(
                f"parallel.{name}={getattr(written, name)} has no effect with parallel=planned",
                (f"parallel.{name}", "parallel.planned"),
                f"parallel.{name}=1 parallel.global_batch_size={d.global_batch_size}",
            )


@rule(
    "mesh.planned_offset",
    "error",
    "it is a number for each stage, and the stages are what a planned layout finds: it lays the layers over them itself",
    outcome="ignored",
    source="mindrecipe plan/planned.py",
    reads="model: offset; parallel: planned",
    fails=["+model=llama2_7b parallel=planned amp=O2 model.offset=[1,-1]", "+model=llama2_7b parallel=planned amp=O2 model.offset=1"],
    passes=["+model=llama2_7b parallel=planned amp=O2 model.offset=0"],
)
def planned_offset(d: Derived) -> Iterator[Problem]:
    """A planned run sets how many layers which stage has."""
    if d.written.parallel.planned and d.written.model.offset != 0:
        yield Problem(
            f"model.offset={d.written.model.offset} has no effect with parallel=planned",
            ("model.offset", "parallel.planned"),
            "model.offset=0",
        )
