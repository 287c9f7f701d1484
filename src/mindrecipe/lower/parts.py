"""What the classes that a recipe names take: optimizers and callbacks of mindformers 1.9.0 and mindspore 2.9.0. As data: neither is
imported here. tests/lower/test_parts.py holds it against the installed ones.
"""

from __future__ import annotations

_SCALED = {"weight_decay", "loss_scale"}
_BETAS = {"beta1", "beta2", "eps"}
_ADAM = {*_SCALED, *_BETAS, "use_locking", "use_nesterov"}
_FACTORED = {*_SCALED, "eps", "clip_threshold", "decay_rate", "beta1", "compression", "scale_parameter", "relative_step", "warmup_init"}
_ADAMW = {"betas", "eps", "weight_decay", "swap", "use_fused"}
#: what AdamW and PmaAdamW take besides where ``use_fused`` is on
FUSED = {"amsgrad", "maximize"}
#: optimizer -> arguments of its constructor, without parameters and learning rate, which the trainer gives; any other is a TypeError
OPTIMIZERS: dict[str, set[str]] = {
    "AdamW": _ADAMW,
    "PmaAdamW": {*_ADAMW, "fused_num", "interleave_step", "fused_algo", "ema_alpha"},
    "Adam": {*_ADAM, "use_amsgrad", "use_lazy", "use_offload"},
    "AdamWeightDecay": {*_BETAS, "weight_decay"},
    "AdamOffload": _ADAM,
    "AdaMax": {*_SCALED, *_BETAS},
    "Lamb": {*_BETAS, "weight_decay"},
    "LazyAdam": _ADAM,
    "Momentum": {*_SCALED, "momentum", "use_nesterov"},
    "AdaFactor": _FACTORED,
    "Came": {*_FACTORED, "beta3"},
    "Adagrad": {*_SCALED, "accum", "update_slots"},
    "Adadelta": {*_SCALED, "rho", "epsilon"},
    "ASGD": {"lambd", "alpha", "t0", "weight_decay"},
    "ProximalAdagrad": {*_SCALED, "accum", "l1", "l2", "use_locking"},
    "RMSProp": {*_SCALED, "decay", "momentum", "epsilon", "use_locking", "centered"},
    "Rprop": {"etas", "step_sizes", "weight_decay"},
    "SGD": {*_SCALED, "momentum", "dampening", "nesterov"},
}
OPTIMIZERS |= {name.lower(): OPTIMIZERS[name] for name in ("Adam", "AdaFactor", "Adagrad", "SGD")}

#: callback -> arguments of its constructor: any other is a TypeError once everything is built
CALLBACKS: dict[str, set[str]] = {
    "BackupAndRestore": {"backup_dir", "save_freq", "delete_checkpoint"},
    "CheckpointMonitor": {
        "prefix", "directory", "config", "save_checkpoint_steps", "save_checkpoint_seconds", "keep_checkpoint_max",
        "keep_checkpoint_per_n_minutes", "integrated_save", "save_network_params", "save_trainable_params", "async_save",
        "saved_network", "append_info", "enc_key", "enc_mode", "exception_save", "global_batch_size", "checkpoint_format",
        "remove_redundancy", "embedding_local_norm_threshold", "embedding_size", "use_checkpoint_health_monitor",
        "health_ckpts_record_dir", "use_legacy_format", "save_optimizer",
    },
    "ColdHotExpertMonitor": {"moe_config", "hidden_size", "ffn_hidden_size", "expert_parallel", "model_parallel", "save_checkpoint_steps"},
    "EarlyStopping": {"monitor", "min_delta", "patience", "verbose", "mode", "baseline", "restore_best_weights"},
    "EvalCallBack": {"eval_func", "step_interval", "epoch_interval"},
    "ExpertMigrateCallback": {
        "config", "print_expert_load", "save_checkpoint_steps", "enable_expert_relocation", "manager",
        "expert_relocation_initial_iteration", "expert_relocation_freq",
    },
    "History": set(),
    "LambdaCallback": {f"on_{what}_{when}" for what in ("train", "eval", "train_epoch", "eval_epoch", "train_step", "eval_step")
                       for when in ("begin", "end")},
    "LearningRateScheduler": {"learning_rate_function"},
    "LossMonitor": {"per_print_times"},
    "MoEDropRateCallback": {"expert_num", "capacity_factor", "num_layers", "mtp_depth"},
    "OnRequestExit": {"save_ckpt", "save_mindir", "file_name", "directory", "sig", "config_file"},
    "ReduceLROnPlateau": {"monitor", "factor", "patience", "verbose", "mode", "min_delta", "cooldown", "min_lr"},
    "SDCMonitor": {"initial_step", "step_interval", "checksum_time", "checksum_cooldown_time", "strike_num", "strike_window_time"},
    "StressDetectCallBack": {"detection_interval", "num_detections", "dataset_size"},
    "StressTestModelMonitor": {
        "interval_steps", "stress_model_dir", "stress_dataset_dir", "compare_interval_steps", "stress_master_port",
        "stress_test_log_dir", "check_stresslog_interval_time",
    },
    "SummaryCollector": {
        "summary_dir", "collect_freq", "num_process", "collect_specified_data", "keep_default_action", "custom_lineage_data",
        "collect_tensor_freq", "max_file_size", "export_options",
    },
    "SummaryLandscape": {"summary_dir"},
    "SummaryMonitor": {
        "summary_dir", "collect_freq", "collect_specified_data", "keep_default_action", "custom_lineage_data", "collect_tensor_freq",
        "max_file_size", "export_options",
    },
    "TimeMonitor": {"data_size", "data_time"},
    "TopkBiasBalanceCallback": {
        "balance_via_topk_bias", "topk_bias_update_rate", "expert_num", "micro_batch_num", "gradient_accumulation_steps",
    },
    "TrainCallBack": {"stop_step"},
    "TrainingStateMonitor": {
        "origin_epochs", "config", "step_interval", "dataset_size", "initial_epoch", "initial_step", "micro_batch_num",
        "global_batch_size", "tensor_model_parallel_size", "check_for_nan_in_loss_and_grad", "use_skip_data_by_global_norm",
        "embedding_size", "use_local_norm",
    },
}  # fmt: skip
#: what MFLossMonitor reads; it swallows all else
LOSS_MONITOR = {
    "learning_rate", "per_print_times", "micro_batch_num", "micro_batch_interleave_num", "origin_epochs", "dataset_size",
    "initial_epoch", "initial_step", "global_batch_size", "gradient_accumulation_steps", "check_for_nan_in_loss_and_grad",
    "calculate_per_token_loss", "print_separate_loss", "is_moe_model", "is_mtp_model",
}  # fmt: skip
#: callbacks that take, or hand on, more than a list of names can say
OPEN_CALLBACKS = ("MFLossMonitor", "MaxLogitsMonitor", "ProfileMonitor", "TrainFaultTolerance", "FlopsUtilizationCollector", "Callback")
