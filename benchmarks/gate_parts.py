"""What benchmarks/gate_power.py puts into a run to make it worse: registered with mindformers through run.imports.

Burn computes on after each step, for a share of its time, on one core; Ballast keeps a share of the process's memory more.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any

import numpy as np
import psutil
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore.train import Callback


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class Burn(Callback):
    """A step that takes ``share`` longer: of all of its time, data and callbacks too. On one core: of CPU time it is a smaller share."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.ended: float | None = None
        self.times: deque[float] = deque(maxlen=50)

    def on_train_step_end(self, run_context: Any) -> None:
        run_context.original_args().net_outputs[0].asnumpy()  # the step is computed now
        now = time.perf_counter()
        if self.ended is not None:
            self.times.append(now - self.ended)
            # a step in which this process was held was not longer for that
            until = now + self.share * min(self.times[-1], 2 * statistics.median(self.times))
            while time.perf_counter() < until:
                pass
        self.ended = time.perf_counter()


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class Ballast(Callback):
    """Memory that nobody needs: ``share`` of what the process has when its first step is done."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.kept: Any = None

    def on_train_step_end(self, run_context: Any) -> None:
        if self.kept is None:
            self.kept = np.ones(int(self.share * psutil.Process().memory_info().rss), np.uint8)
