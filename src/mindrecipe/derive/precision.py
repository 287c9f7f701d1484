"""amp: the documented map of level x half dtype to the dtypes of a model, and the loss scale that goes with it.

mindformers has no amp level; its models take a dtype for each kind of computation. The map says in those terms what
MindSpore's levels mean (mindspore.amp.auto_mixed_precision: O1 converts the cells of a white list, which are the matrix
multiplications; O2 all but a black list, which are the normalisation layers; O3 everything). As there, parameters stay
in fp32 and are converted where they are used, but for O3.

Two entries deviate, because they can't be half: mcore models refuse float16 rotary positions (gpt_model.py:334) and advise
fp32, so they keep it; and where no fused RMSNorm is (on CPU), the norm stays fp32: its float16 gradient overflows at every step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindrecipe.config.schema import AmpConfig
from mindrecipe.models.family import Family
from mindrecipe.models.hardware import Hardware

#: level -> which of compute, param, layernorm, softmax, rotary are half
LEVELS: dict[str, dict[str, bool]] = {
    "O0": {"compute": False, "param": False, "layernorm": False, "softmax": False, "rotary": False},
    "O1": {"compute": True, "param": False, "layernorm": False, "softmax": False, "rotary": False},
    "O2": {"compute": True, "param": False, "layernorm": False, "softmax": True, "rotary": True},
    "O3": {"compute": True, "param": True, "layernorm": True, "softmax": True, "rotary": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScale:
    """``kind`` none (a constant 1), fixed or dynamic; factor and window only matter to dynamic."""

    kind: str
    value: float
    factor: int
    window: int


def half_dtype(amp: AmpConfig, hardware: Hardware) -> str:
    """The half type that ``amp.dtype`` means on this hardware."""
    if amp.dtype != "auto":
        return amp.dtype
    return "bfloat16" if hardware.bfloat16 else "float16"


def row_of(level: str, half: str, hardware: Hardware, family: Family) -> dict[str, str]:
    """The dtypes of one level, deviations applied: kind of computation -> dtype."""
    row = {kind: half if is_half else "float32" for kind, is_half in LEVELS[level].items()}
    if family.architecture == "mcore":
        row["rotary"] = "float32"
    if not hardware.fused_kernels:
        row["layernorm"] = "float32"
    return row


def complete(amp: AmpConfig, hardware: Hardware, family: Family) -> AmpConfig:
    """Fill every null dtype from the map; what the user set stays."""
    half = half_dtype(amp, hardware)
    row = row_of(amp.level, half, hardware, family)
    return replace(
        amp,
        dtype=half,
        compute_dtype=amp.compute_dtype or row["compute"],
        param_dtype=amp.param_dtype or row["param"],
        layernorm_dtype=amp.layernorm_dtype or row["layernorm"],
        softmax_dtype=amp.softmax_dtype or row["softmax"],
        rotary_dtype=amp.rotary_dtype or row["rotary"],
    )


def loss_scale(amp: AmpConfig) -> LossScale:
    """The loss scaling of completed ``amp``: auto is dynamic where anything computes in float16, else none."""
    half = "float16" in (amp.compute_dtype, amp.param_dtype, amp.layernorm_dtype, amp.softmax_dtype, amp.rotary_dtype)
    kind = amp.loss_scale if amp.loss_scale != "auto" else ("dynamic" if half else "none")
    value = 1.0 if kind == "none" else amp.loss_scale_value
    return LossScale(kind=kind, value=value, factor=amp.loss_scale_factor, window=amp.loss_scale_window)
