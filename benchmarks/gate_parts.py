"""What benchmarks/gate_power.py puts into a run to make it worse: registered with mindformers through run.imports.

Burn computes for a share of what each step has computed, on one core; Ballast keeps a share of the process's memory more.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import psutil
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore.train import Callback


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class Burn(Callback):
    """A step that takes ``share`` more CPU time, and as much more time as its own computing had."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.cpu = self.began = 0.0

    def on_train_step_begin(self, run_context: Any) -> None:
        self.cpu, self.began = time.process_time(), time.perf_counter()

    def on_train_step_end(self, run_context: Any) -> None:
        run_context.original_args().net_outputs[0].asnumpy()  # the step is computed now
        ends = time.process_time() + self.share * (time.process_time() - self.cpu)
        late = time.perf_counter() + self.share * (time.perf_counter() - self.began)
        while time.process_time() < ends:
            pass
        time.sleep(max(0.0, late - time.perf_counter()))


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
