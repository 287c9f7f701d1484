"""The dtypes of model_config, runner_wrapper.scale_sense -> the knobs of amp: the level that needs the fewest exceptions."""

from __future__ import annotations

from typing import Any

from mindrecipe.bridge.raise_.raised import Raised
from mindrecipe.config.schema.training import DTYPES as NAMES
from mindrecipe.derive import precision
from mindrecipe.models.family import Family
from mindrecipe.models.hardware import Hardware

_CONFIG = ("model", "model_config")
#: kind -> key of legacy models, key of mcore ones, what LlamaConfig takes without it
_KEYS = {
    "compute": ("compute_dtype", "compute_dtype", "float16"),
    "param": ("param_init_type", "params_dtype", "float16"),
    "layernorm": ("layernorm_compute_type", "layernorm_compute_dtype", "float32"),
    "softmax": ("softmax_compute_type", "softmax_compute_dtype", "float32"),
    "rotary": ("rotary_dtype", "rotary_dtype", "float32"),
}


def raise_(r: Raised, family: Family, hardware: Hardware) -> None:
    """Fill amp.*."""
    used = _used(r, family)
    level, dtype = _level(used, family, hardware)
    half = hardware_half(dtype, hardware)
    row = precision.row_of(level, half, hardware, family)
    r.put("amp.level", level)
    r.put("amp.dtype", dtype)
    for kind in _KEYS:
        r.values.pop(f"amp.{kind}_dtype", None)
        if kind in used and used[kind] != row[kind]:
            r.put(f"amp.{kind}_dtype", used[kind])
    _loss_scale(r, half="float16" in {**row, **used}.values())


def hardware_half(dtype: str, hardware: Hardware) -> str:
    """What amp.dtype means on ``hardware``."""
    return dtype if dtype != "auto" else ("bfloat16" if hardware.bfloat16 else "float16")


def _used(r: Raised, family: Family) -> dict[str, str]:
    """Kind of computation -> dtype, as far as it is known."""
    if r.values["model.family"] == "custom":
        known = {kind: r.values.get(f"amp.{kind}_dtype") for kind in _KEYS}
        return {kind: dtype for kind, dtype in known.items() if isinstance(dtype, str)}
    used = {}
    for kind, (legacy, mcore, default) in _KEYS.items():
        key = legacy if family.architecture == "legacy" else mcore
        dtype = r.get(*_CONFIG, key)
        r.mark(f"amp.{kind}_dtype", *_CONFIG, key)
        used[kind] = dtype if dtype in NAMES else default
    return used


def _level(used: dict[str, str], family: Family, hardware: Hardware) -> tuple[str, str]:
    """(level, amp.dtype) whose row differs least from ``used``; the lower level, and auto, where two do."""
    best, least = ("O0", "auto"), 99
    for level in precision.LEVELS:
        for dtype in ("auto", "float16", "bfloat16"):
            row = precision.row_of(level, hardware_half(dtype, hardware), hardware, family)
            exceptions = sum(row[kind] != name for kind, name in used.items())
            if exceptions < least:
                best, least = (level, dtype), exceptions
    return best


def _loss_scale(r: Raised, *, half: bool) -> None:
    sense: Any = r.get("runner_wrapper", "scale_sense", default=1.0)
    if not r.has("runner_wrapper"):
        sense = {"type": "DynamicLossScaleUpdateCell"}
    kind, path = "none", ("runner_wrapper", "scale_sense")
    if isinstance(sense, dict):
        kind = "fixed" if sense.get("type") == "FixedLossScaleUpdateCell" else "dynamic"
        r.take("amp.loss_scale_value", *path, "loss_scale_value", default=65536.0)
        r.mark("amp.loss_scale", *path, "type")
        if kind == "dynamic":
            if sense.get("scale_factor") != 1:  # one that never changes the scale: mindformers takes it, and it stays native
                r.take("amp.loss_scale_factor", *path, "scale_factor", default=2)
            r.take("amp.loss_scale_window", *path, "scale_window", default=1000)
    elif isinstance(sense, int | float) and not isinstance(sense, bool) and sense != 1:
        kind = "fixed"
        r.put("amp.loss_scale_value", float(sense), *path)
    r.put("amp.loss_scale", "auto" if kind == ("dynamic" if half else "none") else kind, *path)
