"""parallel, parallel_config, recompute_config: how the graph is cut and what it computes twice."""

from __future__ import annotations

from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED, is_v_shaped
from mindrecipe.lower.place import Place

#: mindformers' numbers of MindSpore's modes (mindformers/tools/utils.py)
MODES = {"standalone": "stand_alone", "data_parallel": 0, "semi_auto": 1, "auto": 2, "hybrid": 3}


def lower(derived: Derived, place: Place) -> dict[str, Any]:
    """The sections parallel, parallel_config, recompute_config and micro_batch_interleave_num."""
    native: dict[str, Any] = {"micro_batch_interleave_num": derived.config.parallel.micro_batch_interleave_num}
    if derived.config.parallel.mode != "standalone":
        native["parallel"] = _context(derived, place)
    native["parallel_config"] = _mesh(derived)
    native["recompute_config"] = _recompute(derived)
    return native


def _context(derived: Derived, place: Place) -> dict[str, Any]:
    """What set_auto_parallel_context is given."""
    given = derived.config.parallel
    sharded = given.mode in SHARDED
    native: dict[str, Any] = {
        "parallel_mode": MODES[given.mode],
        # in a sharded graph the loss is the mean over the global batch already; elsewhere replicas would be summed (run)
        "gradients_mean": not sharded,
        "enable_alltoall": given.enable_alltoall,
        "full_batch": given.full_batch and sharded,
        "search_mode": given.search_mode,
        "enable_parallel_optimizer": given.optimizer_parallel,
        "strategy_ckpt_config": {"save_file": f"{place.output_dir}/strategy/ckpt_strategy.ckpt", "only_trainable_params": False},
    }
    if sharded and not given.full_batch:
        native["dataset_strategy"] = [[given.data_parallel, 1] for _ in derived.config.dataset.columns]
    if given.optimizer_parallel:
        options: dict[str, Any] = {"gradient_accumulation_shard": False, "parallel_optimizer_threshold": 64}
        if given.optimizer_weight_shard_size is not None:
            options["optimizer_weight_shard_size"] = given.optimizer_weight_shard_size
        native["parallel_optimizer_config"] = options
    if given.pipeline_interleave > 1 or given.pipeline_scheduler is not None:
        native["pipeline_config"] = {
            # mindspore takes every schedule but 1f1b for an interleaved one, and refuses it without the word
            "pipeline_interleave": given.pipeline_interleave > 1 or given.pipeline_scheduler not in (None, "1f1b"),
            "pipeline_scheduler": given.pipeline_scheduler or "1f1b",
        }
    return native


def _mesh(derived: Derived) -> dict[str, Any]:
    given = derived.config.parallel
    native: dict[str, Any] = {
        "data_parallel": given.data_parallel,
        "model_parallel": given.model_parallel,
        "context_parallel": given.context_parallel,
        "expert_parallel": given.expert_parallel,
        "pipeline_stage": given.pipeline_stage,
        "micro_batch_num": given.micro_batch_num,
        "seq_split_num": given.seq_split_num,
        "use_seq_parallel": given.use_seq_parallel,
        "gradient_aggregation_group": given.gradient_aggregation_group,
        "vocab_emb_dp": given.vocab_emb_dp,
    }
    if given.context_parallel > 1:
        native |= {"context_parallel_algo": given.context_parallel_algo, "ulysses_degree_in_cp": given.ulysses_degree_in_cp}
    return native


def _recompute(derived: Derived) -> dict[str, Any]:
    given, family = derived.config.recompute, derived.family
    layers: Any = {"full": True, "per_stage": given.layers}.get(given.policy, False)
    patterns: Any = False
    if given.policy == "attention":
        patterns = given.patterns or list(family.attention_patterns)
    elif given.policy == "selective":
        patterns = given.patterns or list(family.selective_patterns)
    communication = given.select_comm_recompute
    if is_v_shaped(derived.config.parallel):
        patterns, communication = _of_a_v(patterns), _of_a_v(communication)
    return {
        "recompute": layers,
        "select_recompute": patterns,
        "parallel_optimizer_comm_recompute": given.parallel_optimizer_comm_recompute,
        "select_comm_recompute": communication,
        "mp_comm_recompute": given.mp_comm_recompute,
        "recompute_slice_activation": given.recompute_slice_activation,
    }


def _of_a_v(patterns: Any) -> Any:
    """A list of one pattern as a mapping: with zero_bubble_v LayerSetting looks for a second item of every list, whatever it is of."""
    return {patterns[0]: True} if isinstance(patterns, list) and len(patterns) == 1 else patterns
