"""context: the device, its memory pool, and how graphs are compiled."""

from __future__ import annotations

from typing import Any

from mindrecipe.derive import Derived


def lower(derived: Derived) -> dict[str, Any]:
    """The ``context`` section: only keys that mindformers forwards to MindSpore (core/context/build_context.py)."""
    device, memory = derived.config.device, derived.config.memory
    native: dict[str, Any] = {
        "mode": 0,
        "device_target": derived.hardware.target,
        "max_call_depth": 10000,
        "memory_optimize_level": memory.optimize_level,
    }
    if device.jit_level is not None:
        native["jit_config"] = {"jit_level": device.jit_level}
    if derived.hardware.target == "CPU":
        return native
    native["max_device_memory"] = memory.max_device_memory
    if memory.mempool_block_size is not None:
        native["mempool_block_size"] = memory.mempool_block_size
    ascend = {"precision_mode": device.precision_mode, "parallel_speed_up_json_path": device.parallel_speed_up}
    chosen = {key: value for key, value in ascend.items() if value is not None}
    return native | ({"ascend_config": chosen} if chosen else {})
