"""Which of our knobs each lowered key comes from, for messages about native keys. Importing (bridge/raise_) goes the same way."""

from __future__ import annotations

#: lowered key -> the knob that it comes from, where the value is the same (in the units of both)
KNOBS = {
    "seed": "run.seed",
    "trainer.model_name": "run.name",
    "micro_batch_interleave_num": "parallel.micro_batch_interleave_num",
    "runner_config.batch_size": "dataset.batch_size",
    "train_dataset.batch_size": "dataset.batch_size",
    "runner_config.gradient_accumulation_steps": "parallel.gradient_accumulation_steps",
    "optimizer.type": "optimizer.type",
    "optimizer.betas": "optimizer.betas",
    "optimizer.eps": "optimizer.eps",
    "optimizer.weight_decay": "optimizer.weight_decay",
    "optimizer.learning_rate": "optimizer.learning_rate",
    "lr_schedule.learning_rate": "optimizer.learning_rate",
    "lr_schedule.lr_end": "schedule.lr_end",
    "lr_schedule.num_cycles": "schedule.num_cycles",
    "lr_schedule.power": "schedule.power",
    "lr_schedule.total_steps": "schedule.total_steps",
    "lr_schedule.warmup_lr_init": "schedule.warmup_lr_init",
    "lr_schedule.warmup_steps": "schedule.warmup_steps",
    "lr_schedule.warmup_ratio": "schedule.warmup_ratio",
    "runner_wrapper.max_grad_norm": "optimizer.grad_clip",
    "parallel.full_batch": "parallel.full_batch",
    "parallel.search_mode": "parallel.search_mode",
    "parallel.enable_parallel_optimizer": "parallel.optimizer_parallel",
    "parallel.enable_alltoall": "parallel.enable_alltoall",
    "parallel_config.gradient_aggregation_group": "parallel.gradient_aggregation_group",
    "parallel_config.seq_split_num": "parallel.seq_split_num",
    "parallel_config.use_seq_parallel": "parallel.use_seq_parallel",
    "parallel_config.vocab_emb_dp": "parallel.vocab_emb_dp",
    "recompute_config.mp_comm_recompute": "recompute.mp_comm_recompute",
    "recompute_config.parallel_optimizer_comm_recompute": "recompute.parallel_optimizer_comm_recompute",
    "recompute_config.recompute_slice_activation": "recompute.recompute_slice_activation",
    "train_dataset.drop_remainder": "dataset.drop_remainder",
    "train_dataset.num_parallel_workers": "dataset.num_parallel_workers",
    "train_dataset.prefetch_size": "dataset.prefetch_size",
    "train_dataset.seed": "dataset.seed",
    "train_dataset.data_loader.shuffle": "dataset.shuffle",
    "context.max_device_memory": "memory.max_device_memory",
    "context.mempool_block_size": "memory.mempool_block_size",
    "context.memory_optimize_level": "memory.optimize_level",
    "context.ascend_config.precision_mode": "device.precision_mode",
    "context.jit_config.jit_level": "device.jit_level",
    "checkpoint.async_save": "checkpoint.async_save",
    "checkpoint.save_interleaved_steps": "checkpoint.save_steps",
    "checkpoint.save_max": "checkpoint.keep",
    "callbacks.CheckpointMonitor.async_save": "checkpoint.async_save",
    "callbacks.CheckpointMonitor.keep_checkpoint_max": "checkpoint.keep",
    "callbacks.CheckpointMonitor.save_checkpoint_steps": "checkpoint.save_steps",
}
#: the same of model_config, in the names of both model libraries
MODEL_KNOBS = {
    "bos_token_id": "model.bos_token_id", "eos_token_id": "model.eos_token_id", "pad_token_id": "model.pad_token_id",
    "vocab_size": "model.vocab_size", "seq_length": "model.seq_length", "hidden_size": "model.hidden_size",
    "intermediate_size": "model.intermediate_size", "multiple_of": "model.multiple_of", "head_dim": "model.head_dim",
    "num_layers": "model.num_layers", "num_hidden_layers": "model.num_layers", "num_heads": "model.num_heads",
    "num_attention_heads": "model.num_heads", "n_kv_heads": "model.num_kv_heads", "num_key_value_heads": "model.num_kv_heads",
    "max_position_embedding": "model.max_position_embeddings", "max_position_embeddings": "model.max_position_embeddings",
    "rms_norm_eps": "model.rms_norm_eps", "theta": "model.rope_theta", "rope_theta": "model.rope_theta",
    "init_method_std": "model.init_std", "initializer_range": "model.init_std", "tie_word_embeddings": "model.tie_word_embeddings",
    "use_flash_attention": "model.use_flash_attention", "fused_rms_norm": "model.fused_rms_norm", "offset": "model.offset",
    "pp_interleave_num": "parallel.pipeline_interleave", "compute_dtype": "amp.compute_dtype",
    "param_init_type": "amp.param_dtype", "params_dtype": "amp.param_dtype", "layernorm_compute_type": "amp.layernorm_dtype",
    "layernorm_compute_dtype": "amp.layernorm_dtype", "softmax_compute_type": "amp.softmax_dtype",
    "softmax_compute_dtype": "amp.softmax_dtype", "rotary_dtype": "amp.rotary_dtype",
}  # fmt: skip
#: lowered key -> the knob that it comes from, in other words than the knob's
IN_OTHER_WORDS = {
    "use_parallel": "parallel.mode",
    "parallel.parallel_mode": "parallel.mode",
    "context.device_target": "device.name",
    "load_ckpt_format": "checkpoint.format",
    "lr_schedule.type": "schedule.type",
    "runner_config.epochs": "schedule.epochs",
    "callbacks.TrainCallBack.stop_step": "schedule.total_steps",
    "runner_wrapper.scale_sense": "amp.loss_scale",
    "runner_wrapper.use_clip_grad": "optimizer.grad_clip",
    "recompute_config.recompute": "recompute.policy",
    "recompute_config.select_recompute": "recompute.policy",
    "recompute_config.select_comm_recompute": "recompute.select_comm_recompute",
    "train_dataset.data_loader.type": "dataset.source",
    "train_dataset.data_loader.dataset_files": "dataset.files",
    "train_dataset.data_loader.dataset_dir": "dataset.files",
    "train_dataset.input_columns": "dataset.columns",
    "output_dir": "run.dir",
    "load_checkpoint": "checkpoint.load",
    "resume_training": "checkpoint.resume",
    "checkpoint.load_path": "checkpoint.load",
    "checkpoint.save_path": "run.dir",
    "use_legacy": "model.family",
}


def knob_of(path: str) -> tuple[str | None, bool]:
    """The knob that the lowered key at ``path`` comes from, and whether it has the same value; (None, False) where there is none."""
    inside = path.removeprefix("model.model_config.")
    same = KNOBS.get(path) or (MODEL_KNOBS.get(inside) if inside != path else None)
    return (same, True) if same else (IN_OTHER_WORDS.get(path), False)
