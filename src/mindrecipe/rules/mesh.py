"""Rules of the mesh: device_num and its factors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.registry import LARGE, STAGES, TINY, Problem, rule

HOSTS = f"{LARGE} launch.master_addr=10.0.0.1 parallel.optimizer_parallel=false"
AXES = ("data_parallel", "model_parallel", "context_parallel", "pipeline_stage")
MESH_KEYS = tuple(f"parallel.{axis}" for axis in AXES)


def factorizations(devices: int, wanted: tuple[int, int, int, int], limit: int = 3) -> list[tuple[int, int, int, int]]:
    """(dp, mp, cp, pp) whose product is ``devices``, nearest to ``wanted`` in factors of two; context_parallel is kept if it divides."""
    divisors = divisors_of(devices)
    context = wanted[2] if devices % wanted[2] == 0 else 1
    found = [(devices // (mp * context * pp), mp, context, pp) for mp in divisors for pp in divisors if devices % (mp * context * pp) == 0]
    return sorted(found, key=lambda mesh: sum(abs(math.log2(a / b)) for a, b in zip(mesh, wanted, strict=True)))[:limit]


@rule(
    "mesh.product",
    "error",
    "mindformers refuses a mesh that is not device_num, only after every process has started and built the model",
    outcome="stops",
    source="mindformers tools/check_rules.py _check_parallel (run)",
    reads=(
        "launch: devices_per_node nodes; model: num_heads num_kv_heads num_layers; parallel: context_parallel "
        "data_parallel micro_batch_num mode model_parallel pipeline_interleave pipeline_stage"
    ),
    fails=[
        f"{LARGE} parallel.data_parallel=4 launch.devices_per_node=2",
        f"{LARGE} parallel.data_parallel=1 launch.workers=2",
        f"{LARGE} parallel.data_parallel=3",
    ],
    passes=[
        f"{TINY} parallel=data launch.workers=7",
        f"{LARGE} launch.nodes=1250 launch.master_addr=10.0.0.1 parallel.model_parallel=8 parallel.pipeline_stage=5 "
        "parallel.micro_batch_num=20 model.num_layers=40",
        f"{LARGE} launch.devices_per_node=2 parallel.data_parallel=2",
    ],
)
def product(d: Derived) -> Iterator[Problem]:
    """The axes of the mesh do not multiply to the number of devices."""
    p = d.config.parallel
    wanted = (p.data_parallel or 1, p.model_parallel, p.context_parallel, p.pipeline_stage)
    if not is_refused(d):
        return
    shown = " x ".join(f"{axis} {size}" for axis, size in zip(AXES, wanted, strict=True))
    mends = [_axes_that_differ(mesh, wanted, p.micro_batch_num) for mesh in _that_fit(d, wanted)[:3]]
    yield Problem(
        f"{shown} = {math.prod(wanted)}, but device_num is {d.device_num} "
        f"(nodes {d.config.launch.nodes} x devices_per_node {d.config.launch.devices_per_node})",
        (*MESH_KEYS, "launch.workers", "launch.devices_per_node", "launch.nodes"),
        "; or ".join(mends),
    )


@rule(
    "mesh.ignored_axes",
    "error",
    "outside semi_auto and auto mindformers resets every axis to 1 and trains data parallel",
    outcome="ignored",
    source="mindformers trainer/base_trainer.py _check_global_batch_size_for_auto_parallel",
    reads=(
        "parallel: context_parallel data_parallel expert_parallel micro_batch_interleave_num micro_batch_num mode "
        "model_parallel pipeline_stage use_seq_parallel"
    ),
    fails=[
        f"{TINY} parallel=data parallel.model_parallel=2 device=ascend_910b",
        f"{TINY} parallel=data parallel.data_parallel=4 launch.workers=2",
        f"{TINY} parallel.micro_batch_interleave_num=2 device=ascend_910b",
        f"{TINY} parallel.use_seq_parallel=true device=ascend_910b",
    ],
    passes=[
        f"{TINY} parallel.model_parallel=2 device=ascend_910b parallel=semi_auto",
        f"{TINY} parallel=data launch.workers=2 parallel.data_parallel=null",
        f"{TINY} parallel.micro_batch_interleave_num=2 device=ascend_910b parallel=semi_auto",
    ],
)
def ignored_axes(d: Derived) -> Iterator[Problem]:
    """An axis is set where nothing is sharded."""
    p = d.config.parallel
    if p.mode in SHARDED:
        return
    axes = ("model_parallel", "context_parallel", "pipeline_stage", "expert_parallel", "micro_batch_num", "micro_batch_interleave_num")
    for axis in (*axes, "use_seq_parallel"):
        value = getattr(p, axis)
        if value is True or value > 1:
            yield Problem(
                f"parallel.{axis}={str(value).lower()} has no effect with parallel={_option(p.mode)}",
                (f"parallel.{axis}",),
                "parallel=semi_auto",
            )
    if p.data_parallel != d.device_num:
        yield Problem(
            f"parallel.data_parallel={p.data_parallel}, but parallel={_option(p.mode)} always uses all {d.device_num} devices",
            ("parallel.data_parallel",),
            "parallel.data_parallel=null",
        )


@rule(
    "mesh.standalone",
    "error",
    "standalone is one process: the others would each train the same alone",
    outcome="differs",
    source="mindspore context.py parallel_mode stand_alone",
    reads="parallel: mode",
    fails=[f"{TINY} launch.workers=2"],
    passes=[f"{TINY} launch.workers=2 parallel=data"],
)
def standalone(d: Derived) -> Iterator[Problem]:
    """Several devices are to train standalone."""
    if d.config.parallel.mode == "standalone" and d.device_num > 1:
        yield Problem(
            f"parallel=standalone with {d.device_num} devices",
            ("launch.workers", "launch.devices_per_node", "launch.nodes", "parallel.mode"),
            "parallel=data",
        )


@rule(
    "mesh.accumulation_reset",
    "error",
    "mindformers resets gradient_accumulation_steps to 1 there, with one warning in the log",
    outcome="ignored",
    source="mindformers trainer/base_trainer.py _check_grad_accumulation_steps (run: losses equal those without)",
    reads="parallel: gradient_accumulation_steps micro_batch_num mode pipeline_stage",
    fails=[f"{TINY} parallel.gradient_accumulation_steps=4", f"{STAGES} parallel.gradient_accumulation_steps=4"],
    passes=[
        f"{TINY} parallel.gradient_accumulation_steps=1",
        f"{LARGE} parallel.pipeline_stage=4 parallel.gradient_accumulation_steps=1 parallel.micro_batch_num=16",
    ],
)
def accumulation_reset(d: Derived) -> Iterator[Problem]:
    """Gradients are to be accumulated where mindformers does not."""
    p = d.config.parallel
    if p.gradient_accumulation_steps == 1:
        return
    if p.mode not in SHARDED:
        yield Problem(
            f"parallel.gradient_accumulation_steps={p.gradient_accumulation_steps} has no effect with parallel={_option(p.mode)}",
            ("parallel.gradient_accumulation_steps",),
            "parallel.gradient_accumulation_steps=1",
        )
    elif p.pipeline_stage > 1:
        yield Problem(
            f"parallel.gradient_accumulation_steps={p.gradient_accumulation_steps} has no effect with pipeline_stage={p.pipeline_stage}",
            ("parallel.gradient_accumulation_steps",),
            f"parallel.gradient_accumulation_steps=1 parallel.micro_batch_num={p.micro_batch_num * p.gradient_accumulation_steps}",
        )


@rule(
    "mesh.stages_over_hosts",
    "warning",
    "a stage would begin on one host and end on another: mindformers warns of errors in parallel then",
    outcome="costs",
    source="mindformers tools/check_rules.py _check_parallel (server_num % pipeline_stage)",
    reads="launch: nodes; parallel: mode pipeline_stage",
    fails=[f"{HOSTS} launch.nodes=3 parallel.pipeline_stage=2 parallel.micro_batch_num=2"],
    passes=[
        f"{HOSTS} launch.nodes=4 parallel.pipeline_stage=2 parallel.micro_batch_num=2",
        f"{HOSTS} launch.nodes=2 parallel.pipeline_stage=4 parallel.micro_batch_num=4",
    ],
)
def stages_over_hosts(d: Derived) -> Iterator[Problem]:
    """Neither do the hosts divide into stages, nor the stages into hosts."""
    p, nodes = d.config.parallel, d.config.launch.nodes
    if p.mode in SHARDED and nodes % p.pipeline_stage and p.pipeline_stage % nodes:
        near = divisor_near(nodes, p.pipeline_stage)
        yield Problem(
            f"parallel.pipeline_stage={p.pipeline_stage} with launch.nodes={nodes}",
            ("parallel.pipeline_stage", "launch.nodes"),
            f"parallel.pipeline_stage={near}",
        )


def is_refused(d: Derived) -> bool:
    """Whether mesh.product refuses the mesh: what its axes do not divide is no matter then."""
    p = d.config.parallel
    axes = (p.data_parallel or 1) * p.model_parallel * p.context_parallel * p.pipeline_stage
    return p.mode in SHARDED and axes != d.device_num


def _that_fit(d: Derived, wanted: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """Meshes of the devices at hand, those first (and only, where there are some) that divide heads and layers."""
    m, p = d.config.model, d.config.parallel
    found = factorizations(d.device_num, wanted, limit=100)
    heads = math.gcd(m.num_heads, m.num_kv_heads or m.num_heads)
    fit = [mesh for mesh in found if heads % mesh[1] == 0 and m.num_layers % (mesh[3] * p.pipeline_interleave) == 0]
    return fit or found


def _axes_that_differ(mesh: tuple[int, int, int, int], wanted: tuple[int, int, int, int], micro_batches: int) -> str:
    axes = [f"parallel.{axis}={size}" for axis, size, given in zip(AXES, mesh, wanted, strict=True) if size != given]
    return " ".join([*axes, f"parallel.micro_batch_num={mesh[3]}"] if 1 < mesh[3] > micro_batches else axes)


def _option(mode: str) -> str:
    return "data" if mode == "data_parallel" else mode


def divisors_of(number: int) -> list[int]:
    """The divisors of ``number``, smallest first."""
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def divisor_near(number: int, near: int) -> int:
    """The divisor of ``number`` nearest to ``near`` in factors of two."""
    return min(divisors_of(number), key=lambda k: (abs(math.log2(k / near)), k))
