"""The rows of a simulated step: their shapes are right, their ids are all 0. The data set itself is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import dataset as ds


def one_step(task: Any) -> Any:
    """The data set of exactly one step of ``task`` (mindformers' task trainer), in place of what its create_train_dataset makes.

    Rows are as the data builder cuts them: input_ids[seq_length + 1] where the model shifts them itself, else seq_length ids in each
    column. The batch is what one rank's loader reads, as mindformers has just settled it.
    """
    task._reset_dataset_batch_size()
    settings, model = task.config.train_dataset, task.config.model.model_config
    columns, batch = list(settings.input_columns), int(settings.batch_size)
    length = int(model.seq_length) + (1 if len(columns) == 1 else 0)
    row = tuple(np.zeros(length, np.int32) for _ in columns)
    rows = ds.GeneratorDataset([row] * batch, columns, shuffle=False, num_parallel_workers=1, python_multiprocessing=False)
    return rows.batch(batch, drop_remainder=True)
