"""What really makes a run ill, registered with mindformers through run.imports: slow data, ragged data, a rank that sleeps,
a host that does everything else as well."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore import dataset as ds
from mindspore.train import Callback


def _rows(dataset_files: Any, shuffle: bool) -> Any:
    return ds.MindDataset(dataset_files, columns_list=["input_ids"], shuffle=shuffle, num_parallel_workers=1)


@MindFormerRegister.register(MindFormerModuleType.DATASET_LOADER)
def SlowMindDataset(dataset_files: Any, shuffle: bool = False, **ignored: Any) -> Any:
    """Every row takes its time."""

    def wait(row: Any) -> Any:
        time.sleep(0.8)
        return row

    return _rows(dataset_files, shuffle).map(wait, input_columns=["input_ids"], num_parallel_workers=1)


@MindFormerRegister.register(MindFormerModuleType.DATASET_LOADER)
def RaggedMindDataset(dataset_files: Any, shuffle: bool = False, **ignored: Any) -> Any:
    """Eleven batches of eight, of which the last has four rows."""
    return _rows(dataset_files, shuffle).take(84)


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class SleepyRank(Callback):
    """Rank 1 sleeps after every step."""

    def on_train_step_end(self, run_context: Any) -> None:
        if os.environ.get("RANK_ID") == "1":
            time.sleep(0.3)


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class Hindered(Callback):
    """A neighbour takes a core; from step 45 on each step is followed by a sleep of four, one by a sleep of forty; step 70 fails.

    Sleeps are as long as this run's own steps: they are the same share of its time on a busy machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.began = 0.0

    def on_train_begin(self, run_context: Any) -> None:
        until = "import os, time\nwhile os.getppid() == parent: time.perf_counter()"
        subprocess.Popen([sys.executable, "-c", f"parent = {os.getpid()}\n{until}"])

    def on_train_step_begin(self, run_context: Any) -> None:
        self.began = time.perf_counter()

    def on_train_step_end(self, run_context: Any) -> None:
        run_context.original_args().net_outputs[0].asnumpy()  # the step is computed now
        self.times.append(time.perf_counter() - self.began)
        usual, step = statistics.median(self.times), run_context.original_args().cur_step_num
        if step > 45:
            time.sleep(max(6.0, 40 * usual) if step == 60 else 4 * usual)
        if step == 70:
            raise RuntimeError("ill on purpose")
