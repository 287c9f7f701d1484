"""What turns the time of a step into rates: tokens, FLOPs, and the peak of the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What turns a step's time into rates.

    ``tokens`` of one step of the whole job; ``flops`` of that step on one device (model FLOPs); ``recomputed`` FLOPs a model FLOP that
    recomputation makes the device do in all, None where that is not known; ``peak`` FLOP/s of one device, None where unknown;
    ``steps_per_epoch``, None where unknown; ``first`` steps done before this process (a resume).
    """

    tokens: int
    flops: float | None
    recomputed: float | None
    peak: float | None
    steps_per_epoch: int | None
    first: int

    @classmethod
    def of(cls, derived: dict[str, Any], first: int) -> Scale:
        """From the ``derived`` section of lock.json."""
        tokens, per_token = int(derived["tokens_per_step"]), derived["flops_per_token"]
        return cls(
            tokens=tokens,
            flops=per_token * tokens / int(derived["device_num"]) if per_token is not None else None,
            recomputed=derived.get("recomputed_flops"),
            peak=derived.get("peak_flops"),
            steps_per_epoch=derived.get("steps_per_epoch"),
            first=first,
        )
