"""A configuration lowered as `mindrecipe export` does it, wherever it is asked: no look at this machine, no data set."""

from __future__ import annotations

from typing import Any

from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import Derived, derive
from mindrecipe.derive.machine import Machine
from mindrecipe.lower import Place, lower

#: no NPU and no memory: what an import is for is said by its device, never by where it was imported
NOWHERE = Machine(npu=None, npu_count=0, memory_bytes=0, cores=1)


def derived_of(config: RunConfig) -> Derived:
    """What follows from ``config`` (its family is known) without a machine or data."""
    return derive(config, NOWHERE)


def native_of(derived: Derived) -> dict[str, Any]:
    """The native configuration, with the paths of an export (run.py: export_place)."""
    config = derived.config
    files = tuple(config.dataset.files) if config.dataset.source == "mindrecord" else ()
    place = Place(output_dir="./output", train_files=files or ("./dataset/train.mindrecord",), load=config.checkpoint.load)
    return lower(derived, place)
