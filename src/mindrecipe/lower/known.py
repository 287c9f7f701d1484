"""Keys that mindformers 1.9.0 and mindspore 2.9.0 read of sections whose template knows no more than a few. As data: neither is
imported here. tests/lower/test_known.py holds it against the installed ones.
"""

from __future__ import annotations

from mindrecipe.lower.template import GENERAL, SECTIONS

#: what mindformers forwards to MindSpore (core/context/build_context.py:63) and reads itself (core/config_args.py:470)
CONTEXT = {
    "device_id", "device_target", "max_device_memory", "mempool_block_size", "memory_optimize_level", "save_graphs",
    "save_graphs_path", "max_call_depth", "mode", "jit_config", "ascend_config", "dataset_broadcast_opt_level", "use_graceful_exit",
    "affinity_cpu_list", "affinity_config", "monitor_local_loss", "monitor_device_local_loss", "train_precision_sync",
    "infer_precision_sync", "exclude_cann_cpu", "postprocess_use_numpy",
}  # fmt: skip
#: LlamaConfig's own arguments (models/llama/llama_config.py:131) and those of its base; all else is swallowed
LLAMA = {
    "type", "batch_size", "seq_length", "hidden_size", "num_layers", "num_heads", "n_kv_heads", "max_position_embedding",
    "intermediate_size", "vocab_size", "multiple_of", "ffn_dim_multiplier", "rms_norm_eps", "bos_token_id", "eos_token_id",
    "pad_token_id", "ignore_token_id", "theta", "compute_dtype", "layernorm_compute_type", "softmax_compute_type", "rotary_dtype",
    "param_init_type", "residual_dtype", "embedding_init_type", "qkv_has_bias", "qkv_concat", "attn_proj_has_bias",
    "parallel_config", "moe_config", "use_past", "extend_method", "scaling_factor", "is_dynamic", "use_rope_slice",
    "use_flash_attention", "use_ring_attention", "use_attn_mask_compression", "use_eod_attn_mask_compression",
    "parallel_optimizer", "fine_grain_interleave", "pp_interleave_num", "offset", "init_method_std", "checkpoint_name_or_path",
    "tie_word_embeddings", "llm_backend", "fused_rms_norm", "input_sliced_sig", "rmsnorm_compute_2d", "chunk_prefill",
    "calculate_per_token_loss", "pipeline_stage", "return_hidden_states", "pet_config", "disable_lazy_inline", "recompute_config",
    "swap_config", "architectures", "model_type", "auto_register", "rl_config", "monitor_config", "quant_config",
}  # fmt: skip
#: arguments of a model's configuration that only generation reads
GENERATION = (
    "repetition_penalty", "max_decode_length", "top_k", "top_p", "do_sample", "block_size", "num_blocks", "max_length", "min_length",
    "temperature", "max_new_tokens",
)  # fmt: skip
#: mindspore.context.set_auto_parallel_context (parallel/_auto_parallel_context.py _set_auto_parallel_context_func_map)
PARALLEL = {
    "device_num", "global_rank", "gradients_mean", "gradient_fp32_sync", "loss_repeated_mean", "pipeline_stages", "auto_pipeline",
    "pipeline_result_broadcast", "pipeline_segments", "parallel_mode", "search_mode", "auto_parallel_search_mode",
    "parameter_broadcast", "strategy_ckpt_load_file", "strategy_ckpt_save_file", "group_ckpt_save_file", "full_batch",
    "dataset_strategy", "enable_parallel_optimizer", "force_fp32_communication", "parallel_optimizer_config", "pipeline_config",
    "grad_accumulation_step", "all_reduce_fusion_config", "communi_parallel_mode", "optimizer_weight_shard_size",
    "optimizer_weight_shard_aggregated_save", "sharding_propagation", "enable_alltoall", "strategy_ckpt_config", "comm_fusion",
    "dump_local_norm", "dump_local_norm_path", "dump_device_local_norm", "auto_parallel_new_interface", "init_param_in_compile",
}  # fmt: skip
#: keys at the top that the template calls useless and that are read all the same: mindformers trainer/trainer.py, base_trainer.py,
#: utils.py, dataset/utils.py
EFFECTIVE = {
    "auto_tune", "autotune_per_step", "calculate_per_token_loss", "check_for_nan_in_loss_and_grad", "checkpoint", "data_simplification",
    "filepath_prefix", "grouped_lr_schedule", "mindio_pool_capacity", "npu_num_per_node", "profile_output", "profiler_level",
    "remove_redundancy", "resume_by_last_timestamp_ckpt", "tensorboard", "transform_by_rank", "use_checkpoint_health_monitor",
    "use_graceful_exit", "use_skip_data_by_global_norm", "with_stack", "base_config",
}  # fmt: skip
TOP = {*GENERAL, *SECTIONS, *EFFECTIVE}
_WARMUP = {"type", "learning_rate", "warmup_steps", "warmup_lr_init", "warmup_ratio", "warmup_epochs", "total_steps"}
#: what the constructor of each schedule takes (core/lr/lr_schedule.py), and warmup_epochs, which the trainer takes out; all else is
#: swallowed
SCHEDULES = {
    "ConstantWarmUpLR": _WARMUP,
    "ConstantWithCoolDownLR": _WARMUP | {"keep_steps", "decay_steps", "decay_ratio", "num_cycles", "lr_end1", "final_steps", "lr_end2"},
    "LinearWithWarmUpLR": _WARMUP,
    "CosineWithWarmUpLR": _WARMUP | {"num_cycles", "lr_end", "decay_steps", "decay_ratio"},
    "CosineWithRestartsAndWarmUpLR": _WARMUP | {"num_cycles", "lr_end", "decay_steps"},
    "PolynomialWithWarmUpLR": _WARMUP | {"lr_end", "power", "decay_steps"},
    "WarmUpStableDecayLR": _WARMUP | {"lr_end", "decay_start_steps", "decay_start_ratio"},
    "CosineAnnealingLR": {"type", "base_lr", "t_max", "eta_min", "total_steps"},
    "CosineAnnealingWarmRestarts": {"type", "base_lr", "t_0", "t_mult", "eta_min", "total_steps"},
}
