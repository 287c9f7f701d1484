"""use_parallel, parallel, parallel_config -> the knobs of parallel, and the devices of launch that the mesh asks for."""

from __future__ import annotations

import math
from typing import Any

from mindrecipe.bridge.raise_.raised import Raised
from mindrecipe.derive.mesh import SHARDED

#: stands in a recipe for the host that msrun's command line named: the file does not
FIRST_HOST = "first-host"

#: mindformers/tools/utils.py PARALLEL_MODE, and MindSpore's own names
_MODES: dict[Any, str] = {
    0: "data_parallel",
    1: "semi_auto",
    2: "auto",
    3: "hybrid",
    "DATA_PARALLEL": "data_parallel",
    "SEMI_AUTO_PARALLEL": "semi_auto",
    "AUTO_PARALLEL": "auto",
    "HYBRID_PARALLEL": "hybrid",
    "data_parallel": "data_parallel",
    "semi_auto_parallel": "semi_auto",
    "auto_parallel": "auto",
    "hybrid_parallel": "hybrid",
}
_MESH = ("data_parallel", "model_parallel", "context_parallel", "pipeline_stage")


def raise_(r: Raised) -> None:
    """Fill parallel.* and launch.nodes, launch.devices_per_node."""
    mode = mode_of(r)
    r.put("parallel.mode", mode, "parallel", "parallel_mode")
    r.mark(
        "parallel.mode",
        "use_parallel",
    )
    r.take("parallel.micro_batch_interleave_num", "micro_batch_interleave_num", default=1)
    r.take("parallel.gradient_aggregation_group", "parallel_config", "gradient_aggregation_group", default=4)
    r.take("parallel.vocab_emb_dp", "parallel_config", "vocab_emb_dp", default=True)
    if mode in SHARDED:
        _mesh(r)
    if mode == "standalone":
        return
    r.take("parallel.full_batch", "parallel", "full_batch", default=True)
    r.take("parallel.optimizer_parallel", "parallel", "enable_parallel_optimizer", default=False)
    r.take("parallel.enable_alltoall", "parallel", "enable_alltoall", default=False)
    r.take("parallel.search_mode", "parallel", "search_mode", default="sharding_propagation")
    shards = r.get("parallel", "parallel_optimizer_config", "optimizer_weight_shard_size")
    if r.values.get("parallel.optimizer_parallel") and isinstance(shards, int) and shards > 0:
        r.take("parallel.optimizer_weight_shard_size", "parallel", "parallel_optimizer_config", "optimizer_weight_shard_size")


def mode_of(r: Raised) -> str:
    """Our name of the mode that really runs; the section `parallel` is not read without use_parallel."""
    mode = r.get("parallel", "parallel_mode", default=1)
    if not r.get("use_parallel", default=False) or not isinstance(mode, int | str):
        return "standalone"
    return _MODES.get(mode, "standalone")


def _mesh(r: Raised) -> None:
    for axis in _MESH:
        r.take(f"parallel.{axis}", "parallel_config", axis, default=1)
    for knob, default in (("expert_parallel", 1), ("micro_batch_num", 1), ("seq_split_num", 1), ("use_seq_parallel", False)):
        r.take(f"parallel.{knob}", "parallel_config", knob, default=default)
    r.take("parallel.context_parallel_algo", "parallel_config", "context_parallel_algo")
    r.take("parallel.ulysses_degree_in_cp", "parallel_config", "ulysses_degree_in_cp")
    r.take("parallel.gradient_accumulation_steps", "runner_config", "gradient_accumulation_steps", default=1)
    r.take("parallel.pipeline_interleave", "model", "model_config", "pp_interleave_num", default=1)
    if r.has("parallel", "pipeline_config", "pipeline_scheduler"):
        r.take("parallel.pipeline_scheduler", "parallel", "pipeline_config", "pipeline_scheduler")
    devices = math.prod(r.values.get(f"parallel.{axis}") or 1 for axis in _MESH)
    # hosts of this ecosystem have eight devices; a mesh that eight does not divide is laid over hosts of its largest divisor below
    per_node = max(size for size in range(1, 9) if devices % size == 0)
    r.put("launch.devices_per_node", per_node)
    r.put("launch.nodes", devices // per_node)
    if devices > per_node:
        r.put("launch.master_addr", FIRST_HOST)
