"""Rules of mixed precision and loss scaling."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.rules.registry import LARGE, QWEN, TINY, Problem, rule

_DTYPES = ("compute_dtype", "param_dtype", "layernorm_dtype", "softmax_dtype", "rotary_dtype")


@rule(
    "amp.unscaled_float16",
    "warning",
    "small gradients vanish in float16 without a loss scale",
    outcome="costs",
    source="mindspore.amp documentation; run: loss NaN from the second step",
    reads="amp: compute_dtype",
    fails=[f"{TINY} amp=O2 amp.loss_scale=none"],
    passes=[f"{TINY} amp=O2 amp.loss_scale=dynamic"],
)
def unscaled_float16(d: Derived) -> Iterator[Problem]:
    """float16 without a loss scale."""
    if d.loss_scale.kind == "none" and "float16" in (getattr(d.config.amp, key) for key in _DTYPES):
        yield Problem("float16 computation with amp.loss_scale=none", ("amp.loss_scale",), "amp.loss_scale=dynamic")


@rule(
    "amp.scaled_bfloat16",
    "warning",
    "bfloat16 and fp32 have the range of fp32: scaling only costs steps",
    outcome="costs",
    source="IEEE 754 and bfloat16 ranges; mindformers' own bfloat16 recipes have scale_sense 1.0",
    reads="amp: compute_dtype layernorm_dtype param_dtype rotary_dtype softmax_dtype",
    fails=[f"{LARGE} amp.loss_scale=dynamic"],
    passes=[f"{LARGE} amp.loss_scale=auto"],
)
def scaled_bfloat16(d: Derived) -> Iterator[Problem]:
    """A dynamic loss scale without float16."""
    scales = d.loss_scale.kind == "dynamic" or (d.loss_scale.kind == "fixed" and d.loss_scale.value != 1)
    if scales and "float16" not in (getattr(d.config.amp, key) for key in _DTYPES):
        yield Problem(f"amp.loss_scale={d.loss_scale.kind} without any float16 computation", ("amp.loss_scale",), "amp.loss_scale=auto")


@rule(
    "amp.mixed_halves",
    "advice",
    "what is beyond 65504 in bfloat16 is infinite in float16",
    outcome="costs",
    source="IEEE 754 half and bfloat16 ranges; published recipes train so (mixtral-8x7b: bfloat16 with a float16 softmax)",
    reads="amp: compute_dtype dtype layernorm_dtype param_dtype rotary_dtype softmax_dtype",
    fails=[f"{LARGE} amp.softmax_dtype=float16"],
    passes=[f"{LARGE} amp.softmax_dtype=null", f"{LARGE} amp.dtype=float16"],
)
def mixed_halves(d: Derived) -> Iterator[Problem]:
    """float16 and bfloat16 in one model."""
    amp = d.config.amp
    used = {getattr(amp, key) for key in _DTYPES}
    if {"float16", "bfloat16"} <= used:
        # what amp.dtype is not was written by hand
        other = [key for key in _DTYPES if getattr(amp, key) not in ("float32", amp.dtype)]
        yield Problem(
            f"{' and '.join(f'amp.{key}={getattr(amp, key)}' for key in other)} beside {amp.dtype} in one model",
            tuple(f"amp.{key}" for key in other),
            " ".join(f"amp.{key}=null" for key in other),
        )


@rule(
    "amp.float16_norm",
    "error",
    "without a fused RMSNorm its float16 gradient overflows at every step: the loss scale falls to 1 and nothing is learnt",
    outcome="differs",
    source="run: 32 steps of llama with mindformers' unfused norm, every one overflowed; on CPU a norm of ours computes in float32",
    reads="amp: layernorm_dtype; model: fused_rms_norm",
    fails=[f"{LARGE} amp.layernorm_dtype=float16 amp.dtype=float16 model.fused_rms_norm=false"],
    passes=[f"{LARGE} amp.layernorm_dtype=float16 amp.dtype=float16", f"{TINY} amp=O2 amp.layernorm_dtype=float16 device=cpu"],
)
def float16_norm(d: Derived) -> Iterator[Problem]:
    """A legacy model's norm computes in float16 without its fused kernel."""
    by_ours = d.hardware.target == "CPU" or d.family.architecture == "mcore"
    if d.config.amp.layernorm_dtype == "float16" and not d.config.model.fused_rms_norm and not by_ours:
        yield Problem(
            "amp.layernorm_dtype=float16 without model.fused_rms_norm",
            ("amp.layernorm_dtype", "model.fused_rms_norm"),
            "amp.layernorm_dtype=float32",
        )


@rule(
    "amp.precision_mode",
    "warning",
    "CANN would choose another type for an operator than the one that amp says",
    outcome="differs",
    source="mindspore device_context/ascend/op_precision.py precision_mode; MindSpore documentation",
    reads="amp: compute_dtype; device: precision_mode",
    fails=[f"{LARGE} device.precision_mode=force_fp16", f"{LARGE} amp=O0 device.precision_mode=allow_mix_precision"],
    passes=[
        LARGE,
        f"{LARGE} amp.dtype=float16 device.precision_mode=force_fp16",
        f"{LARGE} device.precision_mode=allow_mix_precision_bf16",
    ],
)
def precision_mode(d: Derived) -> Iterator[Problem]:
    """The device's precision mode and amp want different types."""
    mode, compute = d.config.device.precision_mode or "", d.config.amp.compute_dtype
    half = "bfloat16" if mode.endswith("bf16") else "float16" if mode != "force_fp32" else "float32"
    if d.hardware.target == "Ascend" and mode not in ("", "must_keep_origin_dtype") and half != compute:
        yield Problem(
            f"device.precision_mode={mode} with amp.compute_dtype={compute}",
            ("device.precision_mode", "amp.compute_dtype"),
            "device.precision_mode=must_keep_origin_dtype",
        )


@rule(
    "amp.rotary",
    "error",
    "mindformers refuses it when it builds the model",
    outcome="stops",
    source="mindformers parallel_core/training_graph/base_models/gpt/gpt_model.py GPTModel",
    reads="amp: rotary_dtype",
    fails=[f"{QWEN} amp.rotary_dtype=float16 amp.dtype=float16"],
    passes=[f"{QWEN} amp.dtype=float16 amp.rotary_dtype=float32"],
)
def rotary(d: Derived) -> Iterator[Problem]:
    """Rotary positions of an mcore model in float16."""
    if d.family.architecture == "mcore" and d.config.amp.rotary_dtype == "float16":
        yield Problem("amp.rotary_dtype=float16 with an mcore model", ("amp.rotary_dtype",), "amp.rotary_dtype=float32")
