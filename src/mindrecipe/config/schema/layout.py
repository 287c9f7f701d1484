"""How the work is laid over devices: mesh, recomputation, memory, hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema.knob import knob

#: no axis, model or cluster is larger: keeps what is computed from a typo finite
MOST = 65536
PARALLEL_MODES = ("standalone", "data_parallel", "semi_auto", "auto", "hybrid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelConfig:
    """The mesh: device_num = data_parallel x model_parallel x context_parallel x pipeline_stage."""

    mode: str = knob("standalone", "MindSpore's parallel mode.", choices=PARALLEL_MODES)
    data_parallel: int | None = knob(None, "Replicas of the model; null: what is left of device_num.", ge=1, le=MOST)
    model_parallel: int = knob(1, "Tensor parallelism: devices that share each layer's matrices.", ge=1, le=MOST)
    context_parallel: int = knob(1, "Devices that share one sequence.", ge=1, le=MOST)
    expert_parallel: int = knob(1, "Devices that share the experts of a mixture-of-experts layer.", ge=1, le=MOST)
    pipeline_stage: int = knob(1, "Pipeline stages the layers are cut into.", ge=1, le=MOST)
    micro_batch_num: int = knob(1, "Micro batches that fill the pipeline in one step; at least pipeline_stage.", ge=1)
    pipeline_interleave: int = knob(1, "Model chunks a stage holds (virtual pipeline).", ge=1, le=MOST)
    pipeline_scheduler: str | None = knob(
        None,
        "Pipeline schedule; null: MindSpore's own (1f1b).",
        choices=("gpipe", "1f1b", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v"),
    )
    seq_split_num: int = knob(1, "Pieces of a sequence in a sequence pipeline (seqpipe, seqvpp).", ge=1)
    micro_batch_interleave_num: int = knob(1, "Copies of the batch whose communication and computation overlap.", ge=1)
    gradient_accumulation_steps: int = knob(
        1, "Micro batches summed before an update; only semi_auto and auto without pipeline: mindformers resets it elsewhere.", ge=1
    )
    use_seq_parallel: bool = knob(False, "Sequence parallelism: split activations outside the matrix multiplications over model_parallel.")
    context_parallel_algo: str = knob(
        "colossalai_cp", "Algorithm of context parallelism.", choices=("colossalai_cp", "ulysses_cp", "hybrid_cp")
    )
    ulysses_degree_in_cp: int = knob(1, "Ulysses share of a hybrid context parallelism.", ge=1)
    vocab_emb_dp: bool | None = knob(
        None, "Replicate the embedding instead of splitting it over model_parallel; null: split when the vocabulary divides."
    )
    optimizer_parallel: bool = knob(False, "Shard optimizer state (and weights) over data_parallel: enable_parallel_optimizer.")
    optimizer_weight_shard_size: int | None = knob(None, "Devices a weight is sharded over; null: all of data_parallel.", ge=1)
    gradient_aggregation_group: int = knob(4, "Gradients fused into one collective.", ge=1)
    full_batch: bool = knob(True, "Every rank reads the whole global batch (MindSpore slices it); false: every rank reads its own shard.")
    search_mode: str = knob(
        "sharding_propagation",
        "How parallel=auto finds strategies.",
        choices=("sharding_propagation", "recursive_programming", "dynamic_programming"),
    )
    planned: bool = knob(
        False,
        "Take mesh, micro batches, recomputation and optimizer sharding from the layout search; what is set stays as it is.",
    )
    global_batch_size: int | None = knob(
        None, "Sequences of one step that a planned layout keeps; null: one micro batch a device.", unit="sequences", ge=1
    )
    enable_alltoall: bool = knob(False, "Let MindSpore generate AlltoAll when it changes a layout.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeConfig:
    """Which activations are computed again in the backward pass instead of kept."""

    policy: str = knob(
        "none",
        "none; full: whole layers; attention: the attention core; selective: operators by pattern; per_stage: so many layers a stage.",
        choices=("none", "full", "attention", "selective", "per_stage"),
    )
    layers: list[Any] | None = knob(None, "per_stage: layers recomputed in each stage, e.g. [8,4,2,0].")
    patterns: Any = knob(
        None,
        "selective, attention: operator patterns, a list (all layers) or a map pattern -> true or layers a stage; null: the family's.",
    )
    select_comm_recompute: Any = knob(False, "Communication recomputed by pattern: false, true, or as patterns.")
    mp_comm_recompute: bool = knob(True, "Recompute tensor-parallel communication inside recomputed layers.")
    parallel_optimizer_comm_recompute: bool = knob(False, "Gather sharded weights again in the backward pass.")
    recompute_slice_activation: bool = knob(False, "Slice the activations that are kept (legacy models only).")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """MindSpore's device memory pool."""

    optimize_level: str = knob("O0", "memory_optimize_level: O0 off, O1 on (SOMAS).", choices=("O0", "O1"))
    max_device_memory: str | None = knob(None, 'Upper bound of the pool, e.g. "58GB"; null: the device\'s memory less headroom.')
    headroom: float = knob(0.1, "Share of device memory left to communication and the driver when max_device_memory is null.", ge=0, le=0.9)
    mempool_block_size: str | None = knob(None, 'Block the pool grows by, e.g. "1GB"; null: MindSpore\'s own.')


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """The hardware a recipe is for. Null figures come from the hardware catalogue (models/hardware.py)."""

    name: str = knob(
        "auto",
        "cpu, an Ascend device of the catalogue, or auto: an NPU if there is one, else what the recipe needs.",
        choices=(
            "auto",
            "cpu",
            "ascend_910b",
            "ascend_910b1",
            "ascend_910b2",
            "ascend_910b3",
            "ascend_910b4",
            "ascend_910c",
            "ascend_910a",
        ),
    )
    memory_gb: float | None = knob(None, "Memory of one device.", unit="GB as in MindSpore's strings (2^30 bytes)", gt=0)
    peak_tflops: float | None = knob(
        None, "Dense peak of one device in amp's compute dtype, for MFU; null: catalogue, unknown on CPU.", unit="TFLOP/s", gt=0
    )
    jit_level: str | None = knob(None, "Graph compilation level; null: MindSpore's own for the device.", choices=("O0", "O1", "O2"))
    precision_mode: str | None = knob(
        "must_keep_origin_dtype",
        "Ascend's operator precision mode; null: CANN's own.",
        choices=(  # mindspore/context.py:323
            "must_keep_origin_dtype",
            "force_fp16",
            "force_fp32",
            "allow_fp32_to_fp16",
            "allow_fp32_to_bf16",
            "allow_mix_precision",
            "allow_mix_precision_fp16",
            "allow_mix_precision_bf16",
        ),
    )
    parallel_speed_up: str | None = knob(None, "Path of a parallel_speed_up.json with Ascend overlap options.")
