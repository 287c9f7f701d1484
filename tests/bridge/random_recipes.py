"""Random runs for property tests: everything a recipe may say that a native YAML can say too."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mindrecipe.bridge.recognise import config_of
from mindrecipe.config.schema import RunConfig

_LLAMA = st.fixed_dictionaries(
    {
        "model.family": st.just("llama"),
        "model.num_layers": st.sampled_from([32, 40]),
        "model.hidden_size": st.sampled_from([4096, 5120]),
        "model.num_heads": st.sampled_from([32, 40]),
        "model.num_kv_heads": st.sampled_from([None, 8]),
        "model.intermediate_size": st.sampled_from([None, 11008]),
        "model.rms_norm_eps": st.sampled_from([1e-5, 1e-6]),
        "model.tie_word_embeddings": st.booleans(),
        "model.use_flash_attention": st.sampled_from([None, True, False]),
        "model.offset": st.sampled_from([0, [1, -1]]),
    }
)
_QWEN3 = st.fixed_dictionaries(
    {
        "model.family": st.just("qwen3"),
        "model.num_layers": st.just(36),
        "model.head_dim": st.just(128),
        "model.num_kv_heads": st.just(8),
        "model.intermediate_size": st.just(12288),
        "model.init_std": st.sampled_from([0.02, 0.01]),
    }
)
_SHARED: dict[str, st.SearchStrategy[Any]] = {
    "run.name": st.just("random"),
    "run.seed": st.integers(0, 99),
    "model.seq_length": st.sampled_from([2048, 4096]),
    "model.vocab_size": st.sampled_from([32000, 151936]),
    "dataset.batch_size": st.integers(1, 8),
    "dataset.shuffle": st.booleans(),
    "dataset.drop_remainder": st.booleans(),
    "dataset.prefetch_size": st.integers(1, 4),
    "amp.level": st.sampled_from(["O0", "O1", "O2", "O3"]),
    "amp.dtype": st.sampled_from(["auto", "float16", "bfloat16"]),
    "amp.softmax_dtype": st.sampled_from([None, "float32"]),
    "amp.loss_scale": st.sampled_from(["auto", "dynamic", "none", "fixed"]),
    "amp.loss_scale_value": st.sampled_from([65536.0, 1024.0]),
    "memory.optimize_level": st.sampled_from(["O0", "O1"]),
    "memory.max_device_memory": st.sampled_from([None, "54GB"]),
    "device.name": st.sampled_from(["ascend_910b", "ascend_910a"]),
    "device.jit_level": st.sampled_from([None, "O1"]),
    "device.precision_mode": st.sampled_from([None, "must_keep_origin_dtype"]),
    "optimizer.type": st.sampled_from(["AdamW", "PmaAdamW", "Came", "SGD"]),
    "optimizer.learning_rate": st.sampled_from([1e-5, 3e-4, 0.002]),
    "optimizer.weight_decay": st.sampled_from([0.0, 0.1]),
    "optimizer.betas": st.sampled_from([None, [0.9, 0.999]]),
    "optimizer.grad_clip": st.sampled_from([None, 1.0, 0.5]),
    "schedule.type": st.sampled_from(["constant", "linear", "cosine", "cosine_restarts", "polynomial", "wsd", "constant_cooldown"]),
    "schedule.total_steps": st.sampled_from([None, 100, 20000]),
    "schedule.epochs": st.integers(1, 3),
    "schedule.warmup_ratio": st.sampled_from([0.0, 0.03]),
    "schedule.warmup_steps": st.sampled_from([None, 10]),
    "schedule.lr_end": st.sampled_from([0.0, 1e-6]),
    "checkpoint.save_steps": st.sampled_from([None, 500]),
    "checkpoint.keep": st.integers(1, 9),
    "profile.enabled": st.booleans(),
    "profile.level": st.sampled_from([0, 1]),
    "native": st.sampled_from([{}, {"context": {"save_graphs": False}}, {"callbacks": {"SDCMonitor": {"initial_step": 5}}}]),
}
_SHARDED = st.fixed_dictionaries(
    {
        "parallel.mode": st.sampled_from(["semi_auto", "auto"]),
        "parallel.model_parallel": st.sampled_from([1, 2, 8]),
        "parallel.pipeline_stage": st.sampled_from([1, 2]),
        "parallel.micro_batch_num": st.sampled_from([1, 2, 8]),
        "parallel.gradient_accumulation_steps": st.sampled_from([1, 4]),
        "parallel.optimizer_parallel": st.booleans(),
        "parallel.use_seq_parallel": st.booleans(),
        "parallel.vocab_emb_dp": st.sampled_from([None, True, False]),
        "parallel.gradient_aggregation_group": st.sampled_from([1, 4]),
        "parallel.enable_alltoall": st.booleans(),
        "launch.devices_per_node": st.just(8),
        "launch.nodes": st.sampled_from([2, 4]),
    }
)
_WHOLE = st.fixed_dictionaries({"parallel.mode": st.sampled_from(["standalone", "data_parallel"])})
_RECOMPUTE = st.one_of(
    st.fixed_dictionaries({"recompute.policy": st.sampled_from(["none", "full", "attention", "selective"])}),
    st.fixed_dictionaries({"recompute.policy": st.just("per_stage"), "recompute.layers": st.sampled_from([[4, 2], [[4, 2], [1, 1]]])}),
    st.fixed_dictionaries({"recompute.policy": st.just("selective"), "recompute.patterns": st.just({r"feed_forward\.mul": [4, 0]})}),
)


@st.composite
def configurations(draw: st.DrawFn) -> RunConfig:
    """A run, as it could be written; not all of them pass the rules."""
    values = draw(st.fixed_dictionaries(_SHARED)) | draw(_RECOMPUTE) | draw(st.one_of(_SHARDED, _WHOLE)) | draw(st.one_of(_LLAMA, _QWEN3))
    if values["schedule.type"] == "constant_cooldown" and values["schedule.total_steps"] is None:
        values["schedule.total_steps"] = 500  # it can't be lowered without
    return config_of(values)
