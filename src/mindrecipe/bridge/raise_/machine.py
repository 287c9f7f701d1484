"""context -> the knobs of device and memory."""

from __future__ import annotations

import re
from typing import Any

from mindrecipe.bridge.raise_.raised import Raised

_SMALL = 32.0


def raise_(r: Raised) -> None:
    """Fill device.* and memory.*."""
    r.take("memory.optimize_level", "context", "memory_optimize_level", default="O0")
    r.take("memory.max_device_memory", "context", "max_device_memory", default="58GB")
    r.take("memory.mempool_block_size", "context", "mempool_block_size")
    r.take("device.jit_level", "context", "jit_config", "jit_level")
    r.take("device.precision_mode", "context", "ascend_config", "precision_mode", default=None)
    r.take("device.parallel_speed_up", "context", "ascend_config", "parallel_speed_up_json_path")
    r.put("device.name", device_of(r), "context", "device_target")


def device_of(r: Raised) -> str:
    """The device the file is for: what has bfloat16 or a pool above 32 GB was written for 910B (64 GB), the rest for 910A."""
    target = r.get("context", "device_target", default="Ascend")
    if target == "CPU":
        return "cpu"
    if target != "Ascend":
        text = f"mindformers 1.9.0 trains on Ascend and CPU, not on {target!r}; kept as written"
        r.note("wrong", ("context", "device_target"), text, value=target, mend="Ascend")
    pool = _gigabytes(r.get("context", "max_device_memory", default="58GB"))
    half = any(value == "bfloat16" for value in r.section("model", "model_config").values() if isinstance(value, str))
    return "ascend_910a" if pool is not None and pool <= _SMALL and not half else "ascend_910b"


def _gigabytes(text: Any) -> float | None:
    match = re.fullmatch(r"(\d+(\.\d*)?)GB", text) if isinstance(text, str) else None
    return float(match[1]) if match else None
