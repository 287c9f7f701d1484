"""What really makes a run ill, registered with mindformers through run.imports: slow data, ragged data, updates that are too large, a
rank that sleeps, a host that does everything else as well."""

from __future__ import annotations

import hashlib
import itertools
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from mindformers.core.callback.callback import CheckpointMonitor
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore import Tensor
from mindspore import dataset as ds
from mindspore.train import Callback


def _rows(dataset_files: Any, shuffle: bool) -> Any:
    return ds.MindDataset(dataset_files, columns_list=["input_ids"], shuffle=shuffle, num_parallel_workers=1)


@MindFormerRegister.register(MindFormerModuleType.DATASET_LOADER)
def SlowMindDataset(dataset_files: Any, shuffle: bool = False, **ignored: Any) -> Any:
    """Every row takes its time, and the longer as long as nothing is trained: while the graph is compiled, however long that takes, few
    are made in stock.
    """
    count, metrics = itertools.count(), Path(os.environ["LOCAL_DEFAULT_PATH"]) / "metrics.jsonl"

    def wait(row: Any) -> Any:
        until = time.monotonic() + (3.0 if next(count) > 3 else 0.0)
        while time.monotonic() < until and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.02)
        time.sleep(0.3)
        return row

    return _rows(dataset_files, shuffle).map(wait, input_columns=["input_ids"], num_parallel_workers=1)


@MindFormerRegister.register(MindFormerModuleType.DATASET_LOADER)
def RaggedMindDataset(dataset_files: Any, shuffle: bool = False, **ignored: Any) -> Any:
    """Eleven batches of eight, of which the last has four rows."""
    return _rows(dataset_files, shuffle).take(84)


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class SleepyRank(Callback):
    """Rank 1 sleeps after every step, while a thread of its own works."""

    def on_train_begin(self, run_context: Any) -> None:
        if os.environ.get("RANK_ID") == "1":
            threading.Thread(target=self.work, daemon=True).start()

    @staticmethod
    def work() -> None:
        rows = bytes(2**20)
        while True:
            hashlib.sha256(rows)  # lets other threads of the interpreter run

    def on_train_step_end(self, run_context: Any) -> None:
        if os.environ.get("RANK_ID") == "1":
            time.sleep(0.3)


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class Hindered(Callback):
    """A neighbour takes a core; the disk takes as long as two steps to save; from step 45 on each step is followed by a sleep that is half
    as long again as the first ones were in all, one by a sleep of twenty-five of these; step 70 fails.

    Sleeps are as long as this run's own steps: they are the same share of its time on a busy machine, also on one that was busier at first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.ends: list[float] = []
        self.began: float | None = None
        sooner = CheckpointMonitor.save_checkpoint

        def later(monitor: Any, context: Any) -> None:
            self.computed(context)
            time.sleep(2 * self.usual())
            sooner(monitor, context)

        CheckpointMonitor.save_checkpoint = later

    def computed(self, context: Any) -> None:
        """The step is computed now; what comes after is no part of its time."""
        context.net_outputs[0].asnumpy()
        if self.began is not None:
            self.times.append(time.perf_counter() - self.began)
        self.began = None

    def usual(self) -> float:
        return statistics.median(self.times or [0.0])

    def took(self, first: int, last: int) -> float:
        """Seconds of the median step of these, all in all."""
        ends = self.ends[first - 2 : last]
        return statistics.median(after - before for before, after in itertools.pairwise(ends))

    def on_train_begin(self, run_context: Any) -> None:
        until = "import os, time\nwhile os.getppid() == parent: time.perf_counter()"
        subprocess.Popen([sys.executable, "-c", f"parent = {os.getpid()}\n{until}"])

    def on_train_step_begin(self, run_context: Any) -> None:
        self.began = time.perf_counter()

    def on_train_step_end(self, run_context: Any) -> None:
        context = run_context.original_args()
        self.computed(context)
        step = context.cur_step_num
        self.ends.append(time.perf_counter())
        if step > 45:
            time.sleep(max(6.0, 25 * self.took(46, 59)) if step == 60 else 1.5 * self.took(2, 24))
        if step == 70:
            raise RuntimeError("ill on purpose")


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class TooLarge(Callback):
    """The updates of the given ``steps`` are as many ``times`` as large as the optimizer made them."""

    def __init__(self, steps: list[int], times: list[float]) -> None:
        super().__init__()
        self.times = dict(zip(steps, times, strict=True))
        self.before: list[Any] = []

    @staticmethod
    def weights(run_context: Any) -> Any:
        return run_context.original_args().train_network.optimizer.parameters

    def on_train_step_begin(self, run_context: Any) -> None:
        step = run_context.original_args().cur_step_num
        self.before = [weight.asnumpy().copy() for weight in self.weights(run_context)] if step in self.times else []

    def on_train_step_end(self, run_context: Any) -> None:
        step = run_context.original_args().cur_step_num
        for old, weight in zip(self.before, self.weights(run_context) if self.before else (), strict=True):
            weight.set_data(Tensor(old + self.times[step] * (weight.asnumpy() - old)))
