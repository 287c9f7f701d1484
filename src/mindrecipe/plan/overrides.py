"""A layout as overrides: pasted behind the words of a run they give that layout, whatever those words said of another one."""

from __future__ import annotations

import json
import shlex
from typing import Any

from mindrecipe.config.keys import value_of
from mindrecipe.config.schema import AmpConfig, ParallelConfig, RunConfig
from mindrecipe.models.hardware import CATALOGUE
from mindrecipe.plan.balance import offset_of
from mindrecipe.plan.job import Job

#: of parallel: what the search goes without, so that what the words say of it must not come to a layout of the search
_PLAIN = (
    "pipeline_scheduler",
    "seq_split_num",
    "micro_batch_interleave_num",
    "context_parallel_algo",
    "ulysses_degree_in_cp",
    "vocab_emb_dp",
    "optimizer_weight_shard_size",
    "global_batch_size",
    "planned",
)


def overrides(job: Job, given: RunConfig | None = None) -> str:
    """``job``'s layout as overrides for the words that make up ``given`` (as written, its nulls not filled).

    Mesh, batch, sharding and recomputation are always told, all else where ``given`` has something else.
    """
    given, lay = given or RunConfig(), job.layout
    piped = lay.pipeline > 1
    told: dict[str, Any] = {
        "parallel.data_parallel": lay.data_parallel,
        "parallel.model_parallel": lay.tensor_parallel,
        "parallel.pipeline_stage": lay.pipeline,
        "dataset.batch_size": lay.micro_batch,
    }
    others: dict[str, Any] = {
        "parallel.context_parallel": lay.context_parallel,
        "parallel.micro_batch_num": lay.micro_batches if piped else 1,
        "parallel.gradient_accumulation_steps": 1 if piped else lay.micro_batches,
        "parallel.pipeline_interleave": lay.interleave,
        "parallel.expert_parallel": lay.expert_parallel,
        "parallel.use_seq_parallel": lay.sequence_parallel,
        **{f"parallel.{name}": getattr(ParallelConfig(), name) for name in _PLAIN},
        "recompute.layers": None,
        "recompute.patterns": given.recompute.patterns if job.recompute.policy in ("selective", "attention") else None,
        "recompute.select_comm_recompute": _without_stages(given.recompute.select_comm_recompute),
        "model.offset": offset_of(job),
        **_devices(job, given),
    }
    always = "parallel.micro_batch_num" if piped else "parallel.gradient_accumulation_steps"
    changed = {key: value for key, value in others.items() if key == always or value != value_of(given, key)}
    sharded = str(lay.sharding != "none").lower()
    half = ["amp=O2"] if job.compute != "float32" and given.amp == AmpConfig() else []  # the search was of that (cli/plan.py)
    words = [*half, "parallel=semi_auto", *_words(told), f"parallel.optimizer_parallel={sharded}", f"recompute={job.recompute.policy}"]
    return " ".join([*words, *_words(changed)])


def _words(values: dict[str, Any]) -> list[str]:
    return [shlex.quote(f"{key}={_typed(value)}") for key, value in values.items()]


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value).replace(" ", "")


def _without_stages(given: Any) -> Any:
    """Communication to recompute by pattern, but for numbers of layers: they are of other stages."""
    return False if isinstance(given, dict) and any(isinstance(layers, list) for layers in given.values()) else given


def _devices(job: Job, given: RunConfig) -> dict[str, Any]:
    """What makes a host bring its devices, where the words would have it bring fewer or more."""
    launch, hardware = given.launch, CATALOGUE.get(job.device.name, job.device)
    hosts = max(launch.nodes, len(launch.hosts) if launch.mode == "ssh" else 1)
    brought, needed = launch.devices_per_node or launch.workers or hardware.devices_per_node, job.layout.devices // hosts
    return {} if brought == needed else {"launch.devices_per_node": needed, "launch.workers": None}
