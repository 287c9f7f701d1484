"""What is random in a run, and where ranks agree.

* **Weights** are equal on all ranks. mindformers' Trainer seeds Python, numpy and mindspore with ``run.seed`` on every rank before it
  builds the network. In semi_auto and auto parallel it does not, because mindspore would then fill equally shaped weights
  with equal values; there mindspore counts its own seeds, the same in every run: the slices of the ranks fit together, and
  ``run.seed`` does not change the weights.
* **Row order** is one order for all ranks, drawn from ``dataset.seed`` (null: ``run.seed``), of which each rank reads its own shard:
  rows are disjoint, every epoch has an order of its own, and a resume continues in it. mindformers overwrites the data set's
  seed with the run's; :func:`order_rows_by` puts it back.
* **Dropout** is not used: legacy Llama has none, and mcore's draws one mask when the layer is built, the same for every step,
  layer and rank, whatever the seed. On CPU it has no kernel and is refused (traps.py).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def everywhere(seed: int) -> None:
    """Seed Python, numpy and mindspore, as mindformers' Trainer does when it trains."""
    import mindspore as ms

    random.seed(seed)
    np.random.seed(seed)
    ms.set_seed(seed)


def order_rows_by(trainer: Any, seed: int) -> None:
    """Let ``trainer`` (mindformers' task trainer, before it trains) shuffle its rows by ``seed``, and nothing else.

    Right before the data set is built mindformers copies the run's seed over ``train_dataset.seed``; the first hook comes right after.
    Building it then seeds Python's and numpy's generators too, which the weights are drawn from next; the second hook
    gives them the run's seed again.
    """
    copy_settings, create = trainer._reset_dataset_batch_size, trainer.create_train_dataset

    def copy_settings_but_the_seed() -> None:
        copy_settings()
        trainer.config.train_dataset.seed = seed

    def create_and_forget_its_seed(*arguments: Any, **options: Any) -> Any:
        dataset = create(*arguments, **options)
        random.seed(trainer.config.seed)
        np.random.seed(trainer.config.seed)
        return dataset

    trainer._reset_dataset_batch_size = copy_settings_but_the_seed
    trainer.create_train_dataset = create_and_forget_its_seed
