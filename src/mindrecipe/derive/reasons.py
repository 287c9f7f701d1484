"""Which knobs are filled when they are null, and from what: for a person who asks where a value comes from.

A test derives every shipped recipe and holds each value that was filled against this table.
"""

from __future__ import annotations

_KERNELS = "whether the device has the fused kernel (mcore models: always, on CPU an unfused one takes its place)"
_AMP = "the amp table: {} is what amp.level, amp.dtype and the device give it (docs/amp.md)"

#: key -> the keys it follows from, and how
REASONS: dict[str, tuple[tuple[str, ...], str]] = {
    "run.name": (("recipe", "model.name"), "the name of the recipe, else of the model"),
    "model.num_kv_heads": (("model.num_heads",), "as many as query heads"),
    "model.head_dim": (("model.hidden_size", "model.num_heads"), "hidden_size / num_heads"),
    "model.intermediate_size": (
        ("model.hidden_size", "model.multiple_of", "model.ffn_dim_multiplier"),
        "the family's rule (llama: 8/3 of hidden_size, times ffn_dim_multiplier, rounded up to multiple_of; others: 4 x hidden_size)",
    ),
    "model.max_position_embeddings": (("model.seq_length",), "seq_length"),
    "model.use_flash_attention": (("device.name",), _KERNELS),
    "model.fused_rms_norm": (("device.name",), _KERNELS),
    "dataset.seed": (("run.seed",), "run.seed"),
    "dataset.tokenizer_vocab_size": (("model.vocab_size",), "model.vocab_size"),
    "dataset.num_parallel_workers": ((), "2, or 1 where this machine has one core"),
    "dataset.columns": (("model.family",), "the columns the model family reads"),
    "parallel.data_parallel": (
        ("launch.nodes", "launch.devices_per_node", "parallel.model_parallel", "parallel.context_parallel", "parallel.pipeline_stage"),
        "what the other axes leave of the devices (outside semi_auto and auto: all of them)",
    ),
    "parallel.vocab_emb_dp": (
        ("model.vocab_size", "parallel.model_parallel", "parallel.pipeline_stage"),
        "replicated, unless there are several stages, or model_parallel > 1 divides the vocabulary (mcore models: always split)",
    ),
    "amp.dtype": (("device.name",), "bfloat16 where the device has it, else float16"),
    **{
        f"amp.{kind}_dtype": (("amp.level", "amp.dtype", "device.name"), _AMP.format(kind))
        for kind in ("compute", "param", "layernorm", "softmax", "rotary")
    },
    "memory.max_device_memory": (("device.memory_gb", "memory.headroom"), "the device's memory less memory.headroom"),
    "optimizer.betas": (("optimizer.type",), "Adam's [0.9, 0.95]"),
    "optimizer.eps": (("optimizer.type",), "Adam's 1e-8"),
    "schedule.total_steps": (("schedule.epochs", "dataset.batch_size"), "epochs x steps an epoch, once the data set is known"),
    "schedule.warmup_steps": (("schedule.total_steps", "schedule.warmup_ratio"), "total_steps x warmup_ratio, rounded down"),
    "checkpoint.format": (("model.family",), "ckpt for mindformers' legacy models, safetensors for its mcore ones"),
    "device.name": (("parallel.mode",), "an NPU if this machine has one, else what the recipe needs"),
    "device.memory_gb": (("device.name",), "the hardware catalogue"),
    "device.peak_tflops": (("device.name", "amp.compute_dtype"), "the hardware catalogue, in amp's compute dtype"),
    "launch.devices_per_node": (
        ("launch.workers", "parallel.mode"),
        "launch.workers, else 1 for standalone and what a host of that device has",
    ),
    "launch.node_rank": (("launch.nodes",), "0 where there is one host"),
}
