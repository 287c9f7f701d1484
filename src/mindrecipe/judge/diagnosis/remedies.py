"""What to try, in order, when a device has no memory left: what costs nothing first, what slows every step down last.

The order is that of mindformers' memory FAQ: a device of its own, a larger pool, more model or pipeline parallelism with the same
devices, less at a time, recomputation, a sharded optimizer state. Each is left out where this run can't have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mindrecipe.derive.mesh import SHARDED
from mindrecipe.judge.recorded import Recorded
from mindrecipe.models.hardware import CATALOGUE

_RESERVE = 0.08  # of a device, for communication and the driver: mindformers' own 58GB of 64GB leave 9 %


def remedies(run: Recorded) -> list[str]:
    """Overrides (or what else to do), the first to try first."""
    return [*_device(run), *_split(run), *_smaller(run), *_recompute(run), *_sharded_state(run)]


def _device(run: Recorded) -> Iterator[str]:
    if run.derived.get("device_target") == "CPU":
        return
    yield "see that nobody else uses the device (npu-smi info)"
    kind = CATALOGUE.get(str(run.derived.get("device")))
    size = run.config.get("device", {}).get("memory_gb") or (kind.memory_gb if kind else None)
    pool = re.fullmatch(r"([\d.]+)\s*GB", str(run.config.get("memory", {}).get("max_device_memory")))
    if size and pool and float(pool.group(1)) < (most := int(size * (1 - _RESERVE))):
        yield f"memory.max_device_memory={most}GB"


def _split(run: Recorded) -> Iterator[str]:
    """Half of the replicas, and what is left of them cut in two: as many devices, and the same global batch."""
    mesh: dict[str, Any] = run.config.get("parallel", {})
    model: dict[str, Any] = run.config.get("model", {})
    replicas = int(run.derived.get("data_parallel") or 1)
    if mesh.get("mode") not in SHARDED or replicas % 2:
        return
    tensor, stages = int(mesh.get("model_parallel") or 1), int(mesh.get("pipeline_stage") or 1)
    pieces = int(mesh.get("micro_batch_num") or 1) if stages > 1 else 1
    turns = int(mesh.get("gradient_accumulation_steps") or 1)
    batch = f"parallel.micro_batch_num={2 * pieces}" if stages > 1 else f"parallel.gradient_accumulation_steps={2 * turns}"
    heads = [int(model.get(name) or 1) for name in ("num_heads", "num_kv_heads")]
    if not any(count % (2 * tensor) for count in heads) and 2 * tensor <= int(run.derived.get("devices_per_node") or 1):
        yield f"parallel.data_parallel={replicas // 2} parallel.model_parallel={2 * tensor} {batch}"
    if 2 * stages <= int(model.get("num_layers") or 1) and turns == 1 and not model.get("tie_word_embeddings"):
        yield f"parallel.data_parallel={replicas // 2} parallel.pipeline_stage={2 * stages} parallel.micro_batch_num={2 * pieces}"


def _smaller(run: Recorded) -> Iterator[str]:
    batch = int(run.config.get("dataset", {}).get("batch_size") or 1)
    length = int(run.config.get("model", {}).get("seq_length") or 1)
    if batch > 1:
        yield f"dataset.batch_size={batch // 2}"
    if length > 1 and run.config.get("dataset", {}).get("source") not in ("mindrecord", "native"):  # rows that are ready have their length
        yield f"model.seq_length={length // 2}"


def _recompute(run: Recorded) -> Iterator[str]:
    if run.config.get("recompute", {}).get("policy") != "full":
        yield "recompute=full"


def _sharded_state(run: Recorded) -> Iterator[str]:
    mesh = run.config.get("parallel", {})
    on_ascend = run.derived.get("device_target") != "CPU"
    if on_ascend and not mesh.get("optimizer_parallel") and int(run.derived.get("data_parallel") or 1) > 1:
        yield "parallel.optimizer_parallel=true"
