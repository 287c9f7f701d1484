"""What holds a run back: one small function a cause, each with its evidence, its threshold and what to try."""

from __future__ import annotations

from mindrecipe.judge.diagnosis import ending, loss, memory, mfu, oscillation, overflow, profiled, ranks, time
from mindrecipe.judge.diagnosis.registry import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose", "ending", "loss", "memory", "mfu", "oscillation", "overflow", "profiled", "ranks", "time"]
