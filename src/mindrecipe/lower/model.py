"""model: the model_config of each architecture, in its own names."""

from __future__ import annotations

from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.lower import custom

#: model_type and architectures of mcore families (mindformers/models/<family>)
_MCORE = {"qwen3": ("qwen3", "Qwen3ForCausalLM")}


def lower(derived: Derived) -> dict[str, Any]:
    """The ``model`` section."""
    if derived.config.model.family == "custom":
        return {"model_config": custom.model_config(derived.config)}
    return _legacy(derived) if derived.family.architecture == "legacy" else _mcore(derived)


def _legacy(derived: Derived) -> dict[str, Any]:
    model, amp = derived.config.model, derived.config.amp
    native = {
        "type": "LlamaConfig",
        "batch_size": derived.config.dataset.batch_size,
        "seq_length": model.seq_length,
        "hidden_size": model.hidden_size,
        "num_layers": model.num_layers,
        "num_heads": model.num_heads,
        "n_kv_heads": model.num_kv_heads,
        "vocab_size": model.vocab_size,
        "intermediate_size": model.intermediate_size,
        "multiple_of": model.multiple_of,
        "max_position_embedding": model.max_position_embeddings,
        "rms_norm_eps": model.rms_norm_eps,
        "theta": model.rope_theta,
        "tie_word_embeddings": model.tie_word_embeddings,
        "init_method_std": model.init_std,
        "bos_token_id": model.bos_token_id,
        "eos_token_id": model.eos_token_id,
        "pad_token_id": model.pad_token_id,
        "ignore_token_id": -100,
        "compute_dtype": amp.compute_dtype,
        "param_init_type": amp.param_dtype,
        "layernorm_compute_type": amp.layernorm_dtype,
        "softmax_compute_type": amp.softmax_dtype,
        "rotary_dtype": amp.rotary_dtype,
        "use_flash_attention": model.use_flash_attention,
        "fused_rms_norm": model.fused_rms_norm,
        # without fused kernels (on CPU) the other branch of the rotary embedding does not broadcast (run)
        "use_rope_slice": not derived.hardware.fused_kernels,
        "use_past": False,
        "offset": model.offset,
        "pp_interleave_num": derived.config.parallel.pipeline_interleave,
    }
    if model.ffn_dim_multiplier is not None:
        native["ffn_dim_multiplier"] = model.ffn_dim_multiplier
    native |= model.extra
    return {"model_config": native, "arch": {"type": "LlamaForCausalLM"}}


def _mcore(derived: Derived) -> dict[str, Any]:
    model, amp = derived.config.model, derived.config.amp
    model_type, architecture = _MCORE[derived.family.name]
    native = {
        "model_type": model_type,
        "architectures": [architecture],
        "seq_length": model.seq_length,
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab_size,
        "intermediate_size": model.intermediate_size,
        "max_position_embeddings": model.max_position_embeddings,
        "rms_norm_eps": model.rms_norm_eps,
        "rope_theta": model.rope_theta,
        "tie_word_embeddings": model.tie_word_embeddings,
        "untie_embeddings_and_output_weights": not model.tie_word_embeddings,
        "initializer_range": model.init_std,
        "bos_token_id": model.bos_token_id,
        "eos_token_id": model.eos_token_id,
        "pad_token_id": model.pad_token_id,
        "hidden_act": "swiglu",
        "attention_bias": False,
        "add_bias_linear": False,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "position_embedding_type": "rope",
        "qk_layernorm": True,
        "qkv_concat": True,
        "input_sliced_sig": True,
        "use_contiguous_weight_layout_attention": False,
        "use_flash_attention": model.use_flash_attention,
        "compute_dtype": amp.compute_dtype,
        "params_dtype": amp.param_dtype,
        "layernorm_compute_dtype": amp.layernorm_dtype,
        "softmax_compute_dtype": amp.softmax_dtype,
        "rotary_dtype": amp.rotary_dtype,
        "fp32_residual_connection": True,
        "offset": model.offset,
        **model.extra,
    }
    if derived.config.parallel.pipeline_interleave > 1:
        native["pp_interleave_num"] = derived.config.parallel.pipeline_interleave
    return {"model_config": native}
