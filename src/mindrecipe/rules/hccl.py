"""Rules of HCCL, which connects the devices of a job."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.rules.device import SIZE
from mindrecipe.rules.registry import LARGE, Problem, rule


@rule(
    "launch.hccl_910a",
    "warning",
    "HCCL of the Ascend 910A waits 68 to 17340 s, and has no deterministic reductions",
    outcome="ignored",
    source="CANN manual, environment variables: HCCL_EXEC_TIMEOUT, HCCL_DETERMINISTIC",
    reads="launch: hccl_deterministic hccl_exec_timeout",
    fails=[
        f"{LARGE} device=ascend_910a amp.dtype=float16 launch.hccl_exec_timeout=0",
        f"{LARGE} device=ascend_910a amp.dtype=float16 launch.hccl_deterministic=strict",
    ],
    passes=[f"{LARGE} launch.hccl_exec_timeout=0", f"{LARGE} device=ascend_910a amp.dtype=float16 launch.hccl_exec_timeout=600"],
)
def hccl_910a(d: Derived) -> Iterator[Problem]:
    """What HCCL of the first Ascend 910 does not take."""
    launch = d.config.launch
    if d.hardware.name != "ascend_910a":
        return
    if launch.hccl_exec_timeout is not None and not 68 <= launch.hccl_exec_timeout <= 17340:
        yield Problem(
            f"launch.hccl_exec_timeout={launch.hccl_exec_timeout} with device=ascend_910a",
            ("launch.hccl_exec_timeout", "device.name"),
            "launch.hccl_exec_timeout=null",
        )
    if launch.hccl_deterministic not in (None, "off"):
        yield Problem(
            f"launch.hccl_deterministic={launch.hccl_deterministic} with device=ascend_910a",
            ("launch.hccl_deterministic", "device.name"),
            "launch.hccl_deterministic=null",
        )


@rule(
    "launch.hccl_buffers",
    "warning",
    "each group of ranks takes twice HCCL_BUFFSIZE, beside MindSpore's pool",
    outcome="stops",
    source="CANN manual, environment variables: HCCL_BUFFSIZE",
    reads="device: memory_gb; launch: hccl_buffsize; memory: max_device_memory; "
    "parallel: context_parallel data_parallel model_parallel pipeline_stage",
    fails=[f"{LARGE} launch.hccl_buffsize=8000"],
    passes=[f"{LARGE} launch.hccl_buffsize=400", f"{LARGE} launch.hccl_buffsize=null"],
)
def hccl_buffers(d: Derived) -> Iterator[Problem]:
    """HCCL's buffers are larger than what is left beside the pool: counted are the group of all ranks and one for each axis of the mesh."""
    size, pool, limit = d.config.launch.hccl_buffsize, d.config.memory.max_device_memory, d.config.device.memory_gb
    if size is None or pool is None or limit is None or not SIZE.fullmatch(pool) or d.device_num == 1:
        return
    mesh = d.config.parallel
    axes = (mesh.data_parallel or 1, mesh.model_parallel, mesh.pipeline_stage, mesh.context_parallel)
    groups = 1 + sum(1 < axis < d.device_num for axis in axes)
    left = limit - float(pool[:-2])
    if 2 * size * groups / 1024 > left:
        yield Problem(
            f"launch.hccl_buffsize={size}: {groups} groups take {2 * size * groups / 1024:.1f}GB, and {left:.1f}GB of {limit:g}GB are left",
            ("launch.hccl_buffsize", "memory.max_device_memory"),
            "launch.hccl_buffsize=null",
        )
