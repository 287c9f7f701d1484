"""model -> the knobs of model: a family of ours where mindformers would build its class, else custom."""

from __future__ import annotations

import re
from typing import Any

from mindrecipe.bridge.raise_.raised import Raised

_CONFIG = ("model", "model_config")

#: LlamaConfig's keys (models/llama/llama_config.py:131): ours, and what it takes without them
_LLAMA: dict[str, tuple[str, Any]] = {
    "seq_length": ("seq_length", 2048),
    "hidden_size": ("hidden_size", 4096),
    "num_layers": ("num_layers", 32),
    "num_heads": ("num_heads", 32),
    "n_kv_heads": ("num_kv_heads", None),
    "vocab_size": ("vocab_size", 32000),
    "intermediate_size": ("intermediate_size", None),
    "multiple_of": ("multiple_of", 256),
    "ffn_dim_multiplier": ("ffn_dim_multiplier", None),
    "max_position_embedding": ("max_position_embeddings", None),
    "rms_norm_eps": ("rms_norm_eps", 1.0e-5),
    "theta": ("rope_theta", 10000.0),
    "tie_word_embeddings": ("tie_word_embeddings", False),
    "init_method_std": ("init_std", 0.01),
    "bos_token_id": ("bos_token_id", 1),
    "eos_token_id": ("eos_token_id", 2),
    "pad_token_id": ("pad_token_id", 0),
    "use_flash_attention": ("use_flash_attention", False),
    "fused_rms_norm": ("fused_rms_norm", True),
    "offset": ("offset", 0),
}
_QWEN3 = {
    "seq_length": "seq_length",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_position_embeddings",
    "rms_norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
    "tie_word_embeddings": "tie_word_embeddings",
    "initializer_range": "init_std",
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "pad_token_id": "pad_token_id",
    "use_flash_attention": "use_flash_attention",
    "offset": "offset",
}
_ESSENTIAL = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "seq_length", "intermediate_size")

#: our dimension -> the keys that models of mindformers and Hugging Face have for it
ALIASES: dict[str, tuple[str, ...]] = {
    "seq_length": ("seq_length",),
    "num_layers": ("num_layers", "num_hidden_layers", "n_layer"),
    "hidden_size": ("hidden_size", "n_embd", "embedding_size"),
    "num_heads": ("num_heads", "num_attention_heads", "n_head"),
    "num_kv_heads": ("n_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_query_groups"),
    "head_dim": ("head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "inner_hidden_size"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_position_embeddings": ("max_position_embedding", "max_position_embeddings", "n_positions"),
    "multiple_of": ("multiple_of",),
    "ffn_dim_multiplier": ("ffn_dim_multiplier",),
    "rms_norm_eps": ("rms_norm_eps", "layernorm_epsilon"),
    "rope_theta": ("theta", "rope_theta", "rotary_base"),
    "tie_word_embeddings": ("tie_word_embeddings",),
    "init_std": ("init_method_std", "initializer_range"),
    "use_flash_attention": ("use_flash_attention",),
    "fused_rms_norm": ("fused_rms_norm",),
    "bos_token_id": ("bos_token_id",),
    "eos_token_id": ("eos_token_id",),
    "pad_token_id": ("pad_token_id",),
    "offset": ("offset",),
}
DTYPES: dict[str, tuple[str, ...]] = {
    "compute_dtype": ("compute_dtype",),
    "param_dtype": ("param_init_type", "params_dtype"),
    "layernorm_dtype": ("layernorm_compute_type", "layernorm_compute_dtype"),
    "softmax_dtype": ("softmax_compute_type", "softmax_compute_dtype"),
    "rotary_dtype": ("rotary_dtype",),
}


def raise_(r: Raised) -> None:
    """Fill model.*, and run.name."""
    family = family_of(r)
    r.values["model.family"] = family
    r.values["run.name"] = name_of(r)
    r.mark("run.name", "trainer", "model_name")
    if family == "llama":
        for native, (ours, default) in _LLAMA.items():
            r.take(f"model.{ours}", *_CONFIG, native, default=default)
    elif family == "qwen3":
        for native, ours in _QWEN3.items():
            r.take(f"model.{ours}", *_CONFIG, native)
    else:
        _custom(r)


def family_of(r: Raised) -> str:
    """The family whose class mindformers 1.9.0 would build with our lowering's keys."""
    config, legacy = r.section(*_CONFIG), r.get("use_legacy", default=True)
    if legacy and config.get("type") == "LlamaConfig" and r.section("model", "arch").get("type") == "LlamaForCausalLM":
        return "llama"
    qwen3 = config.get("model_type") == "qwen3" and config.get("architectures") in (["Qwen3ForCausalLM"], "Qwen3ForCausalLM")
    if not legacy and qwen3 and all(key in config for key in _ESSENTIAL):
        return "qwen3"
    return "custom"


def name_of(r: Raised) -> str:
    """A name for the run that may name files: trainer.model_name, else that of the model's class."""
    for text in (r.get("trainer", "model_name"), r.get(*_CONFIG, "type"), r.get(*_CONFIG, "model_type")):
        if isinstance(text, str) and text.strip():
            return re.sub(r"[^\w.]+", "_", text).replace("rank", "r").strip("._") or "imported"
    return "imported"


def _custom(r: Raised) -> None:
    """Dimensions and dtypes where the keys are standard; everything else is the model's own."""
    config = r.section(*_CONFIG)
    r.values["model.architecture"] = "legacy" if r.get("use_legacy", default=True) else "mcore"
    keys: dict[str, str] = {}
    for section, table in (("model", ALIASES), ("amp", DTYPES)):
        for ours, names in table.items():
            native = next((name for name in names if name in config), None)
            # null means that the model computes it, and not by our rule
            if native is not None and config[native] is not None and r.put(f"{section}.{ours}", config[native], *_CONFIG, native):
                keys[ours] = native
    if config.get("batch_size") is not None and config["batch_size"] == r.get("runner_config", "batch_size", default=1):
        keys["batch_size"] = "batch_size"
        r.mark("dataset.batch_size", *_CONFIG, "batch_size")
    if isinstance(config.get("pp_interleave_num"), int):
        keys["pipeline_interleave"] = "pp_interleave_num"
    if keys:
        r.values["model.keys"] = keys
    extra = {key: value for key, value in config.items() if key not in keys.values()}
    if extra:
        r.values["model.extra"] = extra
