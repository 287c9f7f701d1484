"""What a rank would refuse when it starts, found before anything does: the traps of a native configuration, on the lowered one."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.errors import UserError
from mindrecipe.lower import Place, lower
from mindrecipe.rules.native import section
from mindrecipe.rules.native_types import kind
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule
from mindrecipe.traps import Setting, sprung


@rule(
    "native.trap",
    "error",
    "mindformers would take it the wrong way: a rank refuses it when it starts",
    outcome="stops",
    source="traps.py (each with its run)",
    reads="*",
    fails=[f"{TINY} device=cpu native.runner_config.sink_mode=true"],
    passes=[f"{TINY} device=cpu native.runner_config.sink_mode=false"],
)
def trap(d: Derived) -> Iterator[Problem]:
    """The lowered configuration holds what mindformers takes the wrong way."""
    try:
        native = lower(d, Place(output_dir="./output", train_files=("train.mindrecord",)))
    except UserError:
        return  # it says itself what it lacks
    setting = Setting(native=native, world=d.device_num, total_steps=d.total_steps, resumed_step=0, resume_asked=False)
    if setting.target != d.hardware.target or any(kind(d)):
        return  # so do native.device, and native.kind of what no trap can read
    for name, fault in sprung(setting):
        if _has_a_rule(name, d):
            continue
        mend = _mend(fault.mend or "", d)
        yield Problem(fault.what, tuple(word.partition("=")[0] for word in mend.split()), mend)


@rule(
    "native.sink_size",
    "advice",
    "callbacks, and so records of loss and time, saving and stopping, get their turn only once every sink_size steps",
    outcome="costs",
    source="mindspore/train/model.py _train_dataset_sink_process",
    reads="native",
    fails=[f"{LARGE} native.runner_config.sink_size=2"],
    passes=[f"{LARGE} native.runner_config.sink_size=1"],
)
def sink_size(d: Derived) -> Iterator[Problem]:
    """The device takes several steps in one go."""
    size = section(d.config.native, "runner_config").get("sink_size", 1)
    if d.hardware.target != "CPU" and type(size) is int and size > 1:
        what = f"runner_config.sink_size={size}: of {size} steps one is recorded, with the mean of their times"
        yield Problem(what, ("native.runner_config.sink_size",), "native.runner_config.sink_size=1")


def _has_a_rule(name: str, d: Derived) -> bool:
    """mesh.standalone and device.fused_kernels say it in terms of our knobs."""
    model = d.config.model
    return (name == "world" and d.config.parallel.mode == "standalone") or (
        name == "cpu_kernels" and bool(model.fused_rms_norm or (model.use_flash_attention and d.family.architecture == "legacy"))
    )


def _mend(mend: str, d: Derived) -> str:
    """Where a knob of ours or a whole list of callbacks is the cause, that is what to change."""
    key, _, value = mend.partition("=")
    name = key.removeprefix("native.model.model_config.")
    if name in d.config.model.extra:
        return f"model.extra.{name}={value}"
    if name == "use_flash_attention" and d.written.model.use_flash_attention is not None:
        return "model.use_flash_attention=null"
    if key.startswith("native.callbacks.") and isinstance(d.config.native.get("callbacks"), list):
        return "native.callbacks={}"
    return mend
