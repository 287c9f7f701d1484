"""What really makes a run ill, registered with mindformers through run.imports: slow data, ragged data, a rank that sleeps."""

from __future__ import annotations

import os
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
        time.sleep(0.3)
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
