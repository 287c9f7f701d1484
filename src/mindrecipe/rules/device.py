"""Rules of the device: what the CPU can't do, and MindSpore's memory pool."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from mindrecipe.derive import Derived, pool_size
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule

HERE = "possible on CPU: `mindrecipe export` and `mindrecipe check` of this recipe, a tiny model, parallel=data with several workers"
#: mindspore/runtime/memory.py checks its sizes with this expression
SIZE = re.compile(r"[1-9][0-9]*(\.)?[0-9]*GB|0\.[0-9]*GB")


@rule(
    "device.parallel_mode",
    "error",
    "MindSpore compiles sharded graphs for Ascend only: 'Invalid backend: CPU'",
    outcome="stops",
    source="run: RuntimeError 'Invalid backend: CPU'; 'parallel optimizer only supports Ascend in data parallel mode'",
    reads="parallel: mode optimizer_parallel",
    fails=[
        f"{TINY} parallel=semi_auto device=cpu parallel.optimizer_parallel=false",
        f"{TINY} parallel=data parallel.optimizer_parallel=true launch.workers=2 device=cpu",
    ],
    passes=[
        f"{TINY} parallel=semi_auto parallel.optimizer_parallel=false device=ascend_910b",
        f"{TINY} parallel=data launch.workers=2 device=cpu parallel.optimizer_parallel=false",
    ],
)
def parallel_mode(d: Derived) -> Iterator[Problem]:
    """A sharded graph, or a sharded optimizer, is to run on CPU."""
    p = d.config.parallel
    if d.hardware.target == "CPU" and p.mode in (*SHARDED, "hybrid"):
        yield Problem(
            f"parallel={p.mode} can't run on CPU", ("parallel.mode", "device.name"), f"device=ascend_910b, or parallel=data; {HERE}"
        )
    if d.hardware.target == "CPU" and p.mode not in SHARDED and p.optimizer_parallel:
        yield Problem(
            "parallel.optimizer_parallel=true can't run on CPU", ("parallel.optimizer_parallel",), "parallel.optimizer_parallel=false"
        )


@rule(
    "device.bfloat16",
    "error",
    "the device has no bfloat16 kernels",
    outcome="stops",
    source="run: 'Select CPU operator[Reshape] fail! Unsupported data type'; Ascend data sheets (models/hardware.py)",
    reads="amp: compute_dtype dtype layernorm_dtype level param_dtype rotary_dtype softmax_dtype",
    fails=[f"{TINY} amp=O2 amp.dtype=bfloat16", f"{TINY} amp.softmax_dtype=bfloat16"],
    passes=[f"{TINY} amp=O2 amp.dtype=float16", f"{TINY} amp.softmax_dtype=float16"],
)
def bfloat16(d: Derived) -> Iterator[Problem]:
    """Something is bfloat16 on a device without it."""
    if d.hardware.bfloat16:
        return
    amp = d.config.amp
    keys = ("dtype", "compute_dtype", "param_dtype", "layernorm_dtype", "softmax_dtype", "rotary_dtype")
    wrong = [key for key in keys if getattr(amp, key) == "bfloat16" and (key != "dtype" or amp.level != "O0")]
    if wrong:
        first = "dtype" if amp.dtype == "bfloat16" else wrong[0]
        yield Problem(
            f"amp.{first}=bfloat16 can't run on {d.hardware.title}",
            tuple(f"amp.{key}" for key in (first, *wrong)),
            f"amp.{first}=float16, or device=ascend_910b; {HERE}",
        )


@rule(
    "device.fused_kernels",
    "error",
    "the kernel exists on Ascend only",
    outcome="stops",
    source="run: FlashAttentionScore and RmsNorm have no CPU kernel",
    reads="model: fused_rms_norm use_flash_attention",
    fails=[f"{TINY} model.use_flash_attention=true", f"{TINY} model.fused_rms_norm=true"],
    passes=[f"{TINY} model.use_flash_attention=null", f"{TINY} model.fused_rms_norm=null"],
)
def fused_kernels(d: Derived) -> Iterator[Problem]:
    """A fused kernel is asked for where there is none."""
    m = d.config.model
    if d.hardware.fused_kernels:
        return
    if m.use_flash_attention and d.family.architecture == "legacy":
        yield Problem(
            f"model.use_flash_attention=true can't run on {d.hardware.title}",
            ("model.use_flash_attention",),
            "model.use_flash_attention=null",
        )
    if m.fused_rms_norm:
        yield Problem(f"model.fused_rms_norm=true can't run on {d.hardware.title}", ("model.fused_rms_norm",), "model.fused_rms_norm=null")


@rule(
    "device.speed_up_file",
    "warning",
    "MindSpore reads it on every host when a rank starts; the one rule that looks at a file, of the host that launches",
    outcome="stops",
    source="mindspore context.py parallel_speed_up_json_path",
    reads="device: parallel_speed_up",
    fails=[f"{LARGE} device.parallel_speed_up=/nowhere/speed.json"],
    passes=[f"{LARGE} device.parallel_speed_up=null"],
)
def speed_up_file(d: Derived) -> Iterator[Problem]:
    """The file of overlap options is not there."""
    path = d.config.device.parallel_speed_up
    if path is not None and d.hardware.target == "Ascend" and not Path(path).expanduser().is_file():
        yield Problem(
            f"device.parallel_speed_up={path} is not a file of this host",
            ("device.parallel_speed_up",),
            "device.parallel_speed_up=null",
        )


@rule(
    "memory.size",
    "error",
    "MindSpore refuses any other form when the process starts",
    outcome="stops",
    source="mindspore runtime/memory.py set_memory",
    reads="device: memory_gb; memory: max_device_memory mempool_block_size",
    fails=[f"{LARGE} memory.max_device_memory=57000MB", f"{LARGE} memory.mempool_block_size=1"],
    passes=[f"{LARGE} memory.max_device_memory=55GB", f"{LARGE} memory.mempool_block_size=1GB"],
)
def memory_size(d: Derived) -> Iterator[Problem]:
    """A size of the memory pool is not of the form 58GB."""
    for key in ("max_device_memory", "mempool_block_size"):
        text = getattr(d.config.memory, key)
        if text is not None and not SIZE.fullmatch(text):
            yield Problem(f"memory.{key}={text!r} is not a size MindSpore reads", (f"memory.{key}",), f"memory.{key}={_as_size(text, d)}")


def _as_size(text: str, d: Derived) -> str:
    """What ``text`` may have meant, null where that can't be."""
    number = re.search(r"[0-9]+(\.[0-9]+)?", text)
    size = float(number[0]) / (1024 if re.search(r"[0-9]\s*m", text, re.IGNORECASE) else 1) if number else 0.0
    limit = d.config.device.memory_gb
    return f"{math.floor(size)}GB" if 1 <= size <= (limit or math.inf) else "null"


@rule(
    "memory.beyond_device",
    "error",
    "the pool can't be larger than the device's memory",
    outcome="stops",
    source="Ascend data sheets (models/hardware.py)",
    reads="device: memory_gb; memory: max_device_memory",
    fails=[f"{LARGE} memory.max_device_memory=65GB"],
    passes=[f"{LARGE} memory.max_device_memory=null"],
)
def memory_beyond_device(d: Derived) -> Iterator[Problem]:
    """The memory pool is larger than the device's memory."""
    text, limit = d.config.memory.max_device_memory, d.config.device.memory_gb
    if text and limit and SIZE.fullmatch(text) and float(text[:-2]) > limit:
        yield Problem(
            f"memory.max_device_memory={text} is more than the {limit:g}GB of one {d.hardware.title}",
            ("memory.max_device_memory",),
            "memory.max_device_memory=null",
        )


@rule(
    "memory.headroom",
    "warning",
    "HCCL's buffers and the driver need memory beside the pool",
    outcome="costs",
    source="MindSpore FAQ, distributed parallel: HCCL takes about 200 MB a group, the pool about 80 %",
    reads="device: memory_gb; memory: headroom max_device_memory",
    fails=[f"{LARGE} memory.max_device_memory=64GB", f"{LARGE} memory.headroom=0"],
    passes=[f"{LARGE} memory.max_device_memory=null", f"{LARGE} memory.headroom=0.1"],
)
def headroom(d: Derived) -> Iterator[Problem]:
    """Less than 3 % of the device's memory is left beside the pool."""
    text, limit = d.config.memory.max_device_memory, d.config.device.memory_gb
    if text and limit and SIZE.fullmatch(text) and 0.97 * limit < float(text[:-2]) <= limit:
        share = d.config.memory.headroom
        by_share = text == pool_size(limit, share) and share < 0.1
        yield Problem(
            f"memory.max_device_memory={text} leaves {limit - float(text[:-2]):.1f}GB of {limit:g}GB",
            ("memory.max_device_memory", "memory.headroom"),
            "memory.headroom=0.1" if by_share else "memory.max_device_memory=null",
        )


@rule(
    "memory.jit_level",
    "warning",
    "graph fusion and SOMAS work against each other",
    outcome="costs",
    source="mindformers merge request 3459: recipes with jit_level O1 needed memory_optimize_level O0",
    reads="device: jit_level; memory: optimize_level",
    fails=[f"{LARGE} memory=O1 device.jit_level=O1"],
    passes=[f"{LARGE} memory=O1 device.jit_level=O1 memory.optimize_level=O0"],
)
def jit_level(d: Derived) -> Iterator[Problem]:
    """Graph fusion and the memory optimizer are both on."""
    if d.config.memory.optimize_level == "O1" and d.config.device.jit_level == "O1":
        yield Problem(
            "memory.optimize_level=O1 with device.jit_level=O1", ("memory.optimize_level", "device.jit_level"), "memory.optimize_level=O0"
        )


@rule(
    "memory.swap",
    "error",
    "swapping to the host wants the tensors' own lifetimes",
    outcome="stops",
    source="MindSpore Transformers documentation, memory optimization: swap needs memory_optimize_level O0",
    reads="memory: optimize_level; native",
    fails=[f"{LARGE} memory=O1 native.swap_config.swap=true"],
    passes=[f"{LARGE} native.swap_config.swap=true memory=O0"],
)
def swap(d: Derived) -> Iterator[Problem]:
    """Activations are to be swapped while the memory optimizer is on."""
    given = d.config.native.get("swap_config")
    if d.config.memory.optimize_level == "O1" and isinstance(given, dict) and given.get("swap") is True:
        yield Problem(
            "native.swap_config.swap=true with memory.optimize_level=O1", ("memory.optimize_level", "native.swap_config"), "memory=O0"
        )
