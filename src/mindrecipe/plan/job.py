"""Job: a bare description of a training job, all that the planner prices: dimensions, layout, states, recomputation, device.

It says nothing of where it came from: a derived run (of_run.py), a row of a published table (published.py) or a test.
Lengths are in tokens, sizes in elements or bytes, batches in sequences; a *micro batch* is what one data-parallel replica
computes at once. device_num = data_parallel x tensor_parallel x context_parallel x pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mindrecipe.models.hardware import Hardware
from mindrecipe.models.mcore import Latent
from mindrecipe.plan.framework import MINDSPORE, Framework

Sharding = Literal["none", "optimizer", "gradients", "full"]
Policy = Literal["none", "selective", "attention", "full"]
Schedule = Literal["1f1b", "gpipe", "zero_bubble_v"]


class CannotPrice(ValueError):
    """A part of a job that the planner does not price; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """A decoder-only transformer.

    ``gated``: three feed-forward matrices (SwiGLU) instead of two. ``biases``: every matrix has one, norms have two vectors (GPT).
    ``norms``: parameters of the norms of one layer beside that, ``final_norm`` those after the last. ``positions``: rows of a
    learned position table. ``experts`` > 0: all but the first ``dense_layers`` layers have so many experts of width ``expert_width``, of
    which a token visits ``experts_per_token``, and shared experts of width ``shared_width``, with ``shared_gate`` a vector that weighs
    them; ``router``: its matrix is counted. ``latent``: attention through compressed queries, keys and values; heads are then as wide as it
    says, and ``norms`` has those of its ranks.
    ``flash``: attention keeps no scores. ``dropout``: masks are kept for the backward pass.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocab: int
    seq: int
    gated: bool = True
    tied: bool = False
    biases: bool = False
    norms: int = 0
    final_norm: int = 0
    positions: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    shared_width: int = 0
    shared_gate: bool = False
    latent: Latent | None = None
    dense_layers: int = 0
    router: bool = True
    flash: bool = True
    dropout: bool = False

    @property
    def feed_forward_matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def widths(self) -> tuple[int, int, int]:
        """Elements of a token's queries, keys and values."""
        if self.latent:
            return self.heads * self.latent.head, self.heads * self.latent.head, self.heads * self.latent.value
        return self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the work lies on devices. ``layers_of_stages``: a row of stages for each interleaved chunk; None: evenly.

    ``sharding`` over the data-parallel (and context-parallel) devices: optimizer states (ZeRO-1), also gradients (ZeRO-2), also
    weights (ZeRO-3, FSDP); ``shard_size``: over fewer devices than all. ``split_vocabulary``: embedding and output layer over
    tensor_parallel; ``table_over_context``: the embedding over context_parallel as well (mindformers models/llama/llama_layer.py,
    LlamaEmbedding.shard). ``expert_tensor``: experts are split over tensor_parallel too; else expert_parallel spans those devices, and
    experts stay whole (mindformers' mcore: weight1 of 8 experts under ep 2 x tp 2 is [4096, 1536] of [8192, 1536] in a dry run), as do
    shared ones, of which each device computes a part of the sequence.
    """

    data_parallel: int = 1
    tensor_parallel: int = 1
    context_parallel: int = 1
    pipeline: int = 1
    expert_parallel: int = 1
    sequence_parallel: bool = False
    micro_batch: int = 1
    micro_batches: int = 1
    interleave: int = 1
    schedule: Schedule = "1f1b"
    layers_of_stages: tuple[tuple[int, ...], ...] | None = None
    sharding: Sharding = "none"
    shard_size: int | None = None
    split_vocabulary: bool = True
    table_over_context: bool = False
    expert_tensor: bool = True

    @property
    def table_shards(self) -> int:
        """Devices that share the embedding table before any optimizer sharding."""
        return (self.tensor_parallel * (self.context_parallel if self.table_over_context else 1)) if self.split_vocabulary else 1

    @property
    def expert_shards(self) -> int:
        """Devices that share the optimizer state of an expert."""
        if self.expert_tensor or self.shard_size:
            return self.shards
        return max(1, self.data_parallel * self.context_parallel * self.tensor_parallel // self.expert_parallel)

    @property
    def spread_shards(self) -> int:
        """Devices that share the optimizer state of a weight which tensor parallelism does not split."""
        return self.shard_size or self.data_parallel * self.context_parallel * self.tensor_parallel

    @property
    def devices(self) -> int:
        return self.data_parallel * self.tensor_parallel * self.context_parallel * self.pipeline

    @property
    def global_batch(self) -> int:
        return self.micro_batch * self.micro_batches * self.data_parallel

    @property
    def shards(self) -> int:
        """Devices that share one optimizer state."""
        return self.shard_size or self.data_parallel * self.context_parallel

    @property
    def sequence_shards(self) -> int:
        """Devices that share the residual stream of one sequence beside context parallelism."""
        return self.tensor_parallel if self.sequence_parallel else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes one parameter costs: its weight, gradient, fp32 master copy, optimizer moments; and bytes of an activation.

    the half gradients on their way into the buffer, too.
    ``step_copy``: bytes of the gradient that the optimizer step holds beside the rest, sharded with the optimizer states (DeepSpeed's
    fp32 partition). ``gradients_live``: buffers of gradients exist from the first micro batch on; else they come as activations go.
    ``weights_follow``: weights are sharded with the optimizer states (MindSpore's parallel optimizer). ``whole_embedding``: those of the
    embedding table are not (mindformers models/llama/llama_layer.py LlamaEmbedding, parallel_optimizer False).
    """

    weight: float = 2
    gradient: float = 4
    master: float = 4
    moments: float = 8
    activation: float = 2
    working: float = 0
    step_copy: float = 0
    gradients_live: bool = True
    weights_follow: bool = False
    whole_embedding: bool = False

    @property
    def total(self) -> float:
        return self.weight + self.gradient + self.master + self.moments + self.working + self.step_copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """What is computed again in the backward pass; ``full_layers``: so many layers of each stage in full, the rest by ``policy``.

    ``full_chunks``: how they lie in an interleaved pipeline, a row of stages for each chunk; None: over the chunks as evenly as
    mindformers lays them (LayerSetting._alloc_recompute_layer). In a chunk the first layers are those.
    """

    policy: Policy = "none"
    full_layers: tuple[int, ...] | None = None
    full_chunks: tuple[tuple[int, ...], ...] | None = None
    slice_kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that is priced. ``compute`` names the dtype of matrix multiplications (its peak is taken)."""

    dims: Dimensions
    device: Hardware
    layout: Layout = field(default_factory=Layout)
    states: States = field(default_factory=States)
    recompute: Recompute = field(default_factory=Recompute)
    compute: str = "bfloat16"
    framework: Framework = MINDSPORE

    @property
    def tokens(self) -> int:
        """Tokens of one micro batch on one device: context parallelism shares a sequence, tensor parallelism does not."""
        return self.layout.micro_batch * self.dims.seq // self.layout.context_parallel

    @property
    def tokens_per_step(self) -> int:
        return self.layout.global_batch * self.dims.seq


def validate(job: Job) -> None:
    """Raise CannotPrice for what can't be laid out at all, naming the part."""
    d, lay = job.dims, job.layout
    counts = {
        "layers": d.layers,
        "hidden": d.hidden,
        "heads": d.heads,
        "kv_heads": d.kv_heads,
        "vocab": d.vocab,
        "seq": d.seq,
        "data_parallel": lay.data_parallel,
        "tensor_parallel": lay.tensor_parallel,
        "context_parallel": lay.context_parallel,
        "pipeline": lay.pipeline,
        "micro_batch": lay.micro_batch,
        "micro_batches": lay.micro_batches,
        "interleave": lay.interleave,
    }
    for name, count in counts.items():
        if count < 1:
            raise CannotPrice(f"{name} is {count}: it must be at least 1")
    if d.heads % lay.tensor_parallel:
        raise CannotPrice(f"tensor_parallel {lay.tensor_parallel} does not divide {d.heads} heads")
    if d.heads % d.kv_heads:
        raise CannotPrice(f"{d.kv_heads} key/value heads do not divide {d.heads} heads")
    if d.seq % lay.context_parallel:
        raise CannotPrice(f"context_parallel {lay.context_parallel} does not divide a sequence of {d.seq}")
    if lay.pipeline * lay.interleave > d.layers and lay.layers_of_stages is None:
        raise CannotPrice(f"{d.layers} layers are too few for {lay.pipeline} stages x {lay.interleave} chunks")
    if d.experts and d.experts % lay.expert_parallel:
        raise CannotPrice(f"expert_parallel {lay.expert_parallel} does not divide {d.experts} experts")
    if job.device.memory_gb is None:
        raise CannotPrice(f"{job.device.title} has no stated memory: name the device the run is for (device=ascend_910b)")
