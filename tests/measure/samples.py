"""Records to test with: one plausible step, changed where a test cares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mindrecipe.measure.record import StepRecord

_STEP = StepRecord(
    step=1,
    epoch=1,
    loss=5.0,
    lr=1e-3,
    grad_norm=1.25,
    loss_scale=1.0,
    overflow=False,
    step_time=0.05,
    data_time=0.001,
    compute_time=0.048,
    other_time=0.001,
    tokens_per_s=10_000.0,
    tflops_per_device=0.2,
    mfu=None,
    memory_bytes=2**30,
)


def step(number: int, **changes: Any) -> StepRecord:
    return replace(_STEP, step=number, **changes)
