"""train_dataset, runner_config.batch_size -> the knobs of dataset."""

from __future__ import annotations

from mindrecipe.bridge.raise_.raised import Raised

_DATA = "train_dataset"


def raise_(r: Raised) -> None:
    """Fill dataset.*: MindRecords are ours to read, every other loader stays mindformers'."""
    loader = r.section(_DATA, "data_loader")
    if loader.get("type") == "MindDataset":
        r.put("dataset.source", "mindrecord")
        r.mark("dataset.source", _DATA, "data_loader", "type")
        r.take("dataset.shuffle", _DATA, "data_loader", "shuffle", default=True)
        files = loader.get("dataset_files")
        if isinstance(files, list) and files and all(isinstance(file, str) for file in files):
            r.put("dataset.files", files, _DATA, "data_loader", "dataset_files")
        elif isinstance(files, str) and files:
            r.put("dataset.files", [files], _DATA, "data_loader", "dataset_files")
        elif isinstance(loader.get("dataset_dir"), str) and loader["dataset_dir"]:
            r.put("dataset.files", [loader["dataset_dir"]], _DATA, "data_loader", "dataset_dir")
        if "num_shards" in loader and "shard_id" in loader:
            r.take("dataset.num_shards", _DATA, "data_loader", "num_shards")
            r.take("dataset.shard_id", _DATA, "data_loader", "shard_id")
    else:
        r.put("dataset.source", "native")
    # it overwrites train_dataset.batch_size (dataset/utils.py:29)
    r.take("dataset.batch_size", "runner_config", "batch_size", default=1)
    r.take("dataset.drop_remainder", _DATA, "drop_remainder", default=True)
    r.take("dataset.num_parallel_workers", _DATA, "num_parallel_workers")
    r.take("dataset.prefetch_size", _DATA, "prefetch_size")
    r.take("dataset.columns", _DATA, "input_columns")
    r.take("dataset.seed", _DATA, "seed")
