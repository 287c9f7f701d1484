"""train_dataset, train_dataset_task: MindRecords in the columns the model reads."""

from __future__ import annotations

from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.lower.place import Place


def lower(derived: Derived, place: Place) -> dict[str, Any]:
    """The sections train_dataset and train_dataset_task."""
    data = derived.config.dataset
    loader: dict[str, Any] = {"type": "MindDataset", "dataset_files": list(place.train_files), "shuffle": data.shuffle}
    if data.num_shards is not None and derived.device_num == 1:
        loader |= {"num_shards": data.num_shards, "shard_id": data.shard_id}
    native: dict[str, Any] = {} if data.source == "native" else {"data_loader": loader}
    native |= {
        "input_columns": list(data.columns),
        "num_parallel_workers": data.num_parallel_workers,
        "python_multiprocessing": False,
        "drop_remainder": data.drop_remainder,
        "batch_size": data.batch_size,
        "repeat": 1,
        "numa_enable": False,
        "prefetch_size": data.prefetch_size,
        "seed": data.seed,
    }
    if derived.family.architecture == "mcore":
        native["construct_args_key"] = list(data.columns)
    return {"train_dataset": native, "train_dataset_task": {"type": "CausalLanguageModelDataset", "dataset_config": native}}
