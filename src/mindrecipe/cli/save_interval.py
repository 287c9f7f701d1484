"""How often to save, as `show` and `plan` say it."""

from __future__ import annotations

from typing import Any

from mindrecipe.checkpoints.interval import DEVICE_HOURS, SaveInterval
from mindrecipe.derive import Derived
from mindrecipe.derive.checkpoint_size import one_checkpoint_bytes


def advice(derived: Derived) -> SaveInterval | None:
    """Of a run; None where the parameters of its model are not known."""
    return SaveInterval.of(one_checkpoint_bytes(derived), derived.device_num)


def told(derived: Derived, step_time: float | None = None) -> str:
    """In words; ``step_time`` in seconds, where it is known, makes steps of it."""
    found, devices = advice(derived), derived.device_num
    if found is None:
        return "checkpoints: how large they are is not known, as the model's parameters are not: no advice how often to save"
    steps = "" if step_time is None else f", checkpoint.save_steps={found.steps(step_time)} at {step_time:.3g} s a step"
    fail = "1 device fails" if devices == 1 else f"{devices:,} devices fail"
    return (
        f"checkpoints: {found.size / 2**30:.2f} GiB a rank, {found.save:.3g} s at 1 GiB/s; {fail} every {_time(found.between)} "
        f"(one in {DEVICE_HOURS:,.0f} device hours: Llama 3, arXiv 2407.21783): best every {_time(found.best)} (Young, Daly){steps}; "
        f"saving and steps trained again cost {found.lost:.2%} of the time then"
    )


def plain(derived: Derived, step_time: float | None = None) -> dict[str, Any] | None:
    """For JSON: bytes, seconds, steps, a share."""
    found = advice(derived)
    if found is None:
        return None
    return {
        "checkpoint_bytes": found.size,
        "save_seconds": found.save,
        "between_failures_seconds": found.between,
        "best_seconds": found.best,
        "best_steps": None if step_time is None else found.steps(step_time),
        "lost_share": found.lost,
    }


def _time(seconds: float) -> str:
    """5.8 h, 35 min, 40 s."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            value = seconds / size
            return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{seconds:.0f} s"
