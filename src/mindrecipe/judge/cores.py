"""Whether trainings that are measured leave a core of this machine for whatever else it does.

Where all cores compute, a step waits for the one that something else has taken for a moment, and two processes of one recipe differ
several times as much as with one core left (docs/benchmarks.md, "How often the gate is right").
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from mindrecipe.derive import Derived
from mindrecipe.launch.environment import threads_of_each


def advice(sides: Sequence[Derived], cores: int) -> str | None:
    """What to tell before ``sides`` are measured on ``cores`` cores of this machine; None where one is left, or can't be."""
    found = [each for side in sides if (each := _leaves_none(side, cores)) is not None]
    if not found:
        return None
    return (
        f"each training takes all {cores} cores: speeds are told far more surely where one is left, e.g. with "
        f"launch.threads_per_worker={min(found)} on every side"
    )


def _leaves_none(side: Derived, cores: int) -> int | None:
    """With how many threads each rank would leave a core; None where ``side`` leaves one already, or has too many ranks."""
    launch = side.config.launch
    ranks = launch.devices_per_node or 1
    if side.hardware.target != "CPU" or ranks >= cores:
        return None
    given = launch.threads_per_worker or os.environ.get("OMP_NUM_THREADS", "")
    threads = int(given) if str(given).isdigit() else threads_of_each(ranks)
    return (cores - 1) // ranks if threads * ranks >= cores else None
