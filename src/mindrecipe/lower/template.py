"""mindformers 1.9.0's template: the defaults it fills in when it loads a YAML, and the keys it refuses.

A copy of mindformers/tools/register/template.py as data, so that configurations can be compared as mindformers would read them
without importing it (seconds). tests/bridge/test_stock.py holds it against the installed version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindrecipe.lower.residue import copied

TRAIN_MODES = ("train", "finetune", "predict_with_train_model")
RUN_MODES = ("train", "eval", "predict", "finetune", "predict_with_train_model")

GENERAL: dict[str, Any] = {
    "seed": 1, "output_dir": "./output", "run_mode": None, "use_parallel": False, "resume_training": False,
    "print_separate_loss": True, "load_checkpoint": "", "load_ckpt_format": "ckpt", "auto_trans_ckpt": False,
    "transform_process_num": 1, "src_strategy_path_or_dir": "", "only_save_strategy": False, "load_ckpt_async": False,
    "use_legacy": True, "use_legacy_format": True, "pretrained_model_dir": "", "balanced_load": False, "reshard_worker_num": 1,
    "do_eval": False, "eval_step_interval": 100, "eval_epoch_interval": -1, "ignore_data_skip": False, "data_skip_steps": None,
    "profile": False, "profile_communication": False, "profile_memory": True, "init_start_profile": False,
    "profile_start_step": 1, "profile_stop_step": 10, "profile_rank_ids": None, "profile_pipeline": False, "profile_level": 1,
    "mstx": False, "layer_scale": False, "layer_decay": 0.65, "lr_scale": False, "lr_scale_factor": 256,
    "micro_batch_interleave_num": 1, "remote_save_url": None, "save_file": None, "input_data": None, "predict_batch_size": None,
    "adapter_id": None, "exclude_cann_cpu": False, "train_precision_sync": None, "infer_precision_sync": None,
    "postprocess_use_numpy": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section: the ``defaults`` it starts from, whether a key it does not know is refused, the keys it must have.

    ``spec``: defaults only count where the whole section is missing. ``listed``: a list of mappings with a `type`.
    """

    defaults: Any
    closed: bool = False
    required: tuple[str, ...] = ()
    spec: bool = False
    listed: bool = False


SECTIONS: dict[str, Section] = {
    "parallel_config": Section(
        closed=True,
        defaults={
            "data_parallel": 1, "model_parallel": 1, "context_parallel": 1, "expert_parallel": 1, "pipeline_stage": 1,
            "micro_batch_num": 1, "seq_split_num": 1, "use_seq_parallel": False, "optimizer_shard": None,
            "gradient_aggregation_group": 4, "vocab_emb_dp": True, "context_parallel_algo": "colossalai_cp",
            "ulysses_degree_in_cp": 1, "mem_coeff": 0.1,
        },
    ),
    "recompute_config": Section(
        closed=True,
        defaults={
            "recompute": False, "select_recompute": False, "parallel_optimizer_comm_recompute": False,
            "select_comm_recompute": False, "mp_comm_recompute": True, "recompute_slice_activation": False,
            "select_recompute_exclude": False, "select_comm_recompute_exclude": False,
        },
    ),
    "swap_config": Section(closed=True, defaults={"swap": False, "layer_swap": None, "op_swap": None, "default_prefetch": 1}),
    "moe_config": Section(
        closed=True,
        defaults={
            "expert_num": 1, "capacity_factor": 1.1, "aux_loss_factor": 0.05, "num_experts_chosen": 1, "expert_group_size": None,
            "group_wise_a2a": False, "comp_comm_parallel": False, "comp_comm_parallel_degree": 2, "save_token_distribution": False,
            "cur_layer": 0, "enable_cold_hot_expert": False, "update_step": 10000, "hot_expert_num": 0, "cold_token_percent": 1.0,
            "moe_module_name": "", "routing_policy": "TopkRouterV1", "norm_topk_prob": True, "enable_sdrop": False,
            "use_fused_ops_topkrouter": False, "router_dense_type": "float32", "shared_expert_num": 0,
            "use_shared_expert_gating": False, "max_router_load": 131072, "topk_method": "greedy", "topk_group": None,
            "n_group": None, "first_k_dense_replace": True, "moe_intermediate_size": 1407, "routed_scaling_factor": 1.0,
            "aux_loss_types": None, "aux_loss_factors": None, "z_loss_factor": 0.0, "balance_via_topk_bias": False,
            "topk_bias_update_rate": 0.0, "use_allgather_dispatcher": False, "moe_shared_expert_overlap": False,
            "expert_model_parallel": None, "use_gating_sigmoid": False, "enable_deredundency": False, "npu_nums_per_device": 1,
            "use_gmm": False, "enable_gmm_safe_tokens": False, "use_fused_ops_permute": False, "callback_moe_droprate": False,
            "dispatch_global_max_bs": 0, "ep_extend_tp": True,
        },
    ),
    "runner_config": Section(
        closed=True,
        defaults={
            "batch_size": 1, "epochs": 1, "sink_mode": True, "sink_size": 1, "gradient_accumulation_steps": 1, "num_classes": 1,
            "stop_step": 0,
        },
    ),
    "parallel": Section(
        defaults={
            "parallel_mode": 1, "full_batch": True, "search_mode": "sharding_propagation", "enable_parallel_optimizer": False,
            "gradients_mean": False, "enable_alltoall": False, "strategy_ckpt_save_file": "./ckpt_strategy.ckpt",
        }
    ),
    "context": Section(
        defaults={"mode": 0, "device_target": "Ascend", "device_id": 0, "max_device_memory": "58GB", "max_call_depth": 10000}
    ),
    "train_dataset": Section(defaults={}),
    "train_dataset_task": Section(defaults={}, required=("type",)),
    "processor": Section(defaults={}),
    "eval_dataset": Section(defaults={}),
    "eval_dataset_task": Section(defaults={}, required=("type",)),
    "trainer": Section(defaults={}, required=("type",)),
    "model": Section(defaults={}, required=("model_config",)),
    "runner_wrapper": Section(
        spec=True,
        required=("type",),
        defaults={
            "type": "MFTrainOneStepCell",
            "use_clip_grad": True,
            "scale_sense": {"type": "DynamicLossScaleUpdateCell", "loss_scale_value": 65536, "scale_factor": 2, "scale_window": 1000},
        },
    ),
    "optimizer": Section(
        spec=True,
        required=("type",),
        defaults={"type": "AdamW", "betas": [0.9, 0.999], "learning_rate": 5.0e-5, "eps": 1.0e-8, "weight_decay": 0.0},
    ),
    "lr_schedule": Section(
        spec=True,
        required=("type",),
        defaults={"type": "CosineWithWarmUpLR", "learning_rate": 5.0e-5, "lr_end": 0.0, "warmup_ratio": 0.0, "total_steps": -1},
    ),
    "metric": Section(spec=True, required=("type",), defaults={"type": "PerplexityMetric"}),
    "callbacks": Section(listed=True, required=("type",), defaults=[{"type": "MFLossMonitor"}]),
    "eval_callbacks": Section(listed=True, required=("type",), defaults=[]),
    "monitor_config": Section(
        closed=True,
        defaults={
            "monitor_on": False, "dump_path": "./dump", "target": None, "invert": False, "step_interval": 1,
            "local_loss_format": None, "local_norm_format": None, "device_local_norm_format": None,
            "device_local_loss_format": None, "optimizer_state_format": None, "weight_state_format": None,
            "max_attention_logit_format": None, "throughput_baseline": None, "print_struct": False,
            "check_for_global_norm": False, "global_norm_spike_threshold": 3.0, "global_norm_spike_count_threshold": 10,
            "stable_rank_config": None, "health_checkpoint": None,
        },
    ),
}  # fmt: skip

_ALWAYS = ("runner_config", "context", "parallel", "trainer", "model", "moe_config", "parallel_config")
_TRAIN = (
    "recompute_config", "swap_config", "runner_wrapper", "optimizer", "lr_schedule", "metric", "train_dataset",
    "train_dataset_task", "callbacks", "monitor_config",
)  # fmt: skip
_EVAL = ("eval_dataset", "eval_dataset_task", "eval_callbacks")


def sections_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The sections mindformers fills in and checks for ``config``'s run_mode (ConfigTemplate.apply_template)."""
    mode = config.get("run_mode")
    if isinstance(mode, str) and mode in TRAIN_MODES:
        chosen = _ALWAYS + _TRAIN + (_EVAL if config.get("do_eval", False) else ())
    elif mode == "predict":
        chosen = (*_ALWAYS, "processor")
    elif mode == "eval":
        chosen = (*_ALWAYS, *_EVAL, "metric")
    else:
        chosen = _ALWAYS
    return chosen if config.get("use_legacy", True) else tuple(name for name in chosen if name != "moe_config")


@dataclass(frozen=True, slots=True)
class Fault:
    """What stops mindformers from loading the file. ``missing``: something is wanted at ``path``; else what is there must go."""

    path: tuple[Any, ...]
    why: str
    missing: bool = False


def apply(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """``config`` as mindformers reads it, and what it would refuse it for; refused keys are kept in the result."""
    result: dict[str, Any] = {key: value for key, value in config.items() if key not in GENERAL}
    faults: list[Fault] = []
    for name in sections_of(config):
        result[name] = _apply_section(name, SECTIONS[name], config.get(name), faults)
    return result | {key: config.get(key, default) for key, default in GENERAL.items()}, faults


def _apply_section(name: str, section: Section, given: Any, faults: list[Fault]) -> Any:
    if section.listed:
        return _apply_list(name, section, given, faults)
    if given is not None and not isinstance(given, Mapping):
        faults.append(Fault((name,), f"mindformers takes a mapping here, not {type(given).__name__}"))
        return given
    if not given:
        return copied(section.defaults)
    result: dict[str, Any] = {} if section.spec else copied(section.defaults)
    faults.extend(Fault((name, key), "mindformers wants this key", missing=True) for key in section.required if key not in given)
    for key, value in given.items():
        if section.closed and key not in section.defaults:
            faults.append(Fault((name, key), "mindformers 1.9.0 refuses the whole file: the section has no such key"))
        result[key] = value
    return result


def _apply_list(name: str, section: Section, given: Any, faults: list[Fault]) -> Any:
    if given is not None and not isinstance(given, list):
        faults.append(Fault((name,), f"mindformers takes a list here, not {type(given).__name__}"))
        return given
    result: list[Any] = copied(section.defaults)
    for number, item in enumerate(given or []):
        if not isinstance(item, Mapping) or "type" not in item:
            faults.append(Fault((name, number), "mindformers takes mappings with a type here"))
            result.append(item)
            continue
        ordered = {"type": item["type"], **{key: value for key, value in item.items() if key != "type"}}
        place = next((at for at, default in enumerate(section.defaults) if default["type"] == item["type"]), None)
        if place is None:
            result.append(ordered)
        else:
            result[place] = ordered
    return result
