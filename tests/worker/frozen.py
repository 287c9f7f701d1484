"""Hand-made frozen run directories: what the launcher would have written, in their smallest form."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.config.schema import WatchConfig

SEQ = 64
BATCH = 8
STEPS = 12

_COMMON: dict[str, Any] = {
    "seed": 42,
    "run_mode": "train",
    "use_parallel": False,
    "load_checkpoint": "",
    "resume_training": False,
    "auto_trans_ckpt": False,
    "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": "tiny"},
    "runner_config": {"epochs": 1, "batch_size": BATCH, "sink_mode": False, "gradient_accumulation_steps": 1},
    "optimizer": {"type": "AdamW", "betas": [0.9, 0.95], "eps": 1.0e-8, "weight_decay": 0.1},
    "lr_schedule": {"type": "CosineWithWarmUpLR", "learning_rate": 0.005, "lr_end": 0.0, "warmup_steps": 2, "total_steps": STEPS},
    "train_dataset_task": {"type": "CausalLanguageModelDataset"},
    "context": {"mode": 0, "device_target": "CPU"},
    "parallel": {"parallel_mode": 0, "gradients_mean": True, "full_batch": False, "enable_parallel_optimizer": False},
    "parallel_config": {"data_parallel": 1, "model_parallel": 1, "context_parallel": 1, "pipeline_stage": 1, "micro_batch_num": 1},
    "runner_wrapper": {"type": "MFTrainOneStepCell", "scale_sense": 1.0, "use_clip_grad": True, "max_grad_norm": 1.0},
}
_DATASET = {"num_parallel_workers": 1, "prefetch_size": 1, "python_multiprocessing": False, "drop_remainder": True, "numa_enable": False}
_LLAMA = {
    "type": "LlamaConfig", "seq_length": SEQ, "max_position_embedding": SEQ, "hidden_size": 64, "num_layers": 2, "num_heads": 4,
    "vocab_size": 256, "intermediate_size": 176, "rms_norm_eps": 1.0e-5, "pad_token_id": 0, "ignore_token_id": -100,
    "compute_dtype": "float32", "param_init_type": "float32", "layernorm_compute_type": "float32", "softmax_compute_type": "float32",
    "rotary_dtype": "float32", "init_method_std": 0.02, "use_flash_attention": False, "fused_rms_norm": False, "use_rope_slice": True,
    "use_past": False, "input_sliced_sig": False,
}  # fmt: skip
_QWEN3 = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 256, "hidden_size": 64, "intermediate_size": 176,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "swiglu",
    "max_position_embeddings": SEQ, "seq_length": SEQ, "initializer_range": 0.02, "rms_norm_eps": 1.0e-6, "tie_word_embeddings": False,
    "untie_embeddings_and_output_weights": True, "rope_theta": 1.0e6, "attention_bias": False, "add_bias_linear": False,
    "use_flash_attention": True, "pad_token_id": 0, "attention_dropout": 0.0, "hidden_dropout": 0.0, "input_sliced_sig": True,
    "position_embedding_type": "rope", "qk_layernorm": True, "use_contiguous_weight_layout_attention": False, "qkv_concat": True,
    "params_dtype": "float32", "compute_dtype": "float32", "layernorm_compute_dtype": "float32", "softmax_compute_dtype": "float32",
    "rotary_dtype": "float32", "fp32_residual_connection": True,
}  # fmt: skip


def native(family: str, run: Path, data: Path) -> dict[str, Any]:
    """mindformers.yaml of a tiny llama (.ckpt through the callback) or qwen3 (safetensors through the ``checkpoint`` section)."""
    legacy = family == "llama"
    config = copy.deepcopy(_COMMON) | {
        "output_dir": str(run),
        "use_legacy": legacy,
        "load_ckpt_format": "ckpt" if legacy else "safetensors",
    }
    layout, columns = ("shifted", ["input_ids"]) if legacy else ("labelled", ["input_ids", "labels", "loss_mask"])
    config["train_dataset"] = _DATASET | {
        "data_loader": {"type": "MindDataset", "dataset_files": [str(data / f"{layout}_train.mindrecord")], "shuffle": True},
        "input_columns": columns,
    }
    if legacy:
        config["model"] = {"model_config": dict(_LLAMA), "arch": {"type": "LlamaForCausalLM"}}
    else:
        config["train_dataset"]["construct_args_key"] = columns
        config["model"] = {"model_config": dict(_QWEN3)}
    config["callbacks"] = [{"type": "TrainCallBack", "stop_step": STEPS}, {"type": "MFLossMonitor", "per_print_times": 1}]
    if legacy:
        config["callbacks"].append(monitor(run, "ckpt"))
    else:
        config["callbacks"].append({"type": "CheckpointMonitor"})
        config["checkpoint"] = {
            "save_path": str(run / "checkpoint"), "save_max": 5, "save_interleaved_steps": STEPS // 2, "prefix": "tiny",
            "no_save_optim": False, "async_save": False, "save_remove_redundancy": False, "load_path": "", "no_load_optim": True,
        }  # fmt: skip
    return config


def monitor(run: Path, kind: str) -> dict[str, Any]:
    """The CheckpointMonitor that writes into ``run`` at half of the steps, and at the end."""
    return {
        "type": "CheckpointMonitor", "prefix": "tiny", "directory": str(run), "save_checkpoint_steps": STEPS // 2, "keep_checkpoint_max": 5,
        "integrated_save": False, "async_save": False, "checkpoint_format": kind,
    }  # fmt: skip


def freeze(run: Path, config: dict[str, Any], data: Path, *, ranks: int = 1, **changes: Any) -> Path:
    """Write the frozen files of a run that trains ``config``.

    ``changes``: imports, at_end, save_final, total_steps, resume, data_seed, threads.
    """
    run.mkdir(parents=True, exist_ok=True)
    layout = "shifted" if config["use_legacy"] else "labelled"
    resolved = {
        "run": {"imports": changes.get("imports", [])},
        "launch": {"threads_per_worker": changes.get("threads")},
        "monitor": {"memory": True, "tensorboard": False, "rank_steps": True, "usage_interval": 0.2, "update_ratio_steps": 5},
        "profile": {"enabled": False},
        "parallel": {"mode": "standalone" if ranks == 1 else "data_parallel"},
        "evaluate": {"at_end": changes.get("at_end", False), "max_batches": 64},
        "checkpoint": {"save_final": changes.get("save_final", True), "keep": 5},
        "watch": asdict(WatchConfig()) | changes.get("watch", {}),
    }
    derived = {
        "device_num": ranks, "devices_per_node": ranks, "recomputed_flops": 1.0, "tokens_per_step": BATCH * SEQ, "flops_per_token": 6.0e5, "peak_flops": 1.0e12, "steps_per_epoch": 12,
        "total_steps": changes.get("total_steps", STEPS), "data_seed": changes.get("data_seed", 42), "resume": changes.get("resume"),
        "dataset": {"heldout_files": [str(data / f"{layout}_heldout.mindrecord")]},
    }  # fmt: skip
    (run / "mindformers.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (run / "config.yaml").write_text(yaml.safe_dump(resolved))
    (run / "lock.json").write_text(json.dumps({"derived": derived}))
    return run
