"""How each source of published figures counts: what its training framework holds, and what its memory column is.

A convention is found by the source's name, else by what the row says of its sharding and device.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mindrecipe.models.hardware import Hardware
from mindrecipe.plan import framework as frameworks
from mindrecipe.plan.framework import Framework
from mindrecipe.plan.job import Dimensions, States
from mindrecipe.plan.memory import GIB, Memory

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """The plain convention: Megatron's states, flash attention, an allocator's peak. Sources that differ are below."""

    software: str = "megatron"
    activations_only: bool = False
    knows_micro_batch: bool = False

    def adapt(self, dims: Dimensions) -> Dimensions:
        """Dimensions as the source's model really has them."""
        return dims

    def framework(self, row: Row) -> Framework:
        del row
        return frameworks.MEGATRON

    def flash(self, row: Row) -> bool:
        return "fa false" not in row.get("notes", "").lower()

    def states(self, row: Row, accumulates: bool) -> States:
        """Megatron's mixed precision: half weights, fp32 gradients, master copy and moments (Narayanan et al. 2021)."""
        del row, accumulates
        return States(weight=2, gradient=4, master=4, moments=8)

    def micro_batch(self, batch: int | None, data_parallel: int) -> int:
        del batch, data_parallel
        return 1

    def sequence_parallel(self, row: Row) -> bool:
        return "sp false" not in row.get("notes", "").lower()

    def split_vocabulary(self, row: Row) -> bool:
        del row
        return True

    def refuses_memory(self, row: Row) -> str:
        """The part of this row's memory that is not priced; "" for none."""
        del row
        return ""

    def gib(self, memory: Memory, row: Row) -> float:
        """What the source's memory column would hold."""
        del row
        return memory.peak.total / GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfused(Convention):
    """Megatron-LM of 2021: GPT with biases, learned positions, dropout masks, unfused attention, no sequence parallelism."""

    software: str = "megatron 2021"

    def adapt(self, dims: Dimensions) -> Dimensions:
        return dataclasses.replace(dims, gated=False, tied=True, biases=True, norms=0, final_norm=0, positions=dims.seq, dropout=True)

    def framework(self, row: Row) -> Framework:
        del row
        return frameworks.MEGATRON_DEEPSPEED

    def flash(self, row: Row) -> bool:
        del row
        return False

    def sequence_parallel(self, row: Row) -> bool:
        del row
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedBloom(Unfused):
    """BLOOM's prequel on Megatron-DeepSpeed: half gradients, an fp32 partition of them in the step; memory as nvidia-smi sees it."""

    software: str = "megatron deepspeed"

    def states(self, row: Row, accumulates: bool) -> States:
        del row, accumulates
        return States(weight=2, gradient=2, master=4, moments=8, step_copy=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFsdp(Convention):
    """torch FSDP with fp32 weights sharded and cast when gathered (MosaicML's llm-foundry, whose MPT has no biases)."""

    software: str = "torch fsdp"

    def adapt(self, dims: Dimensions) -> Dimensions:
        return dataclasses.replace(dims, tied=not dims.gated, positions=0 if dims.gated else dims.seq)

    def framework(self, row: Row) -> Framework:
        del row
        return frameworks.LLM_FOUNDRY

    def states(self, row: Row, accumulates: bool) -> States:
        del row, accumulates
        return States(weight=4, gradient=4, master=0, moments=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchtune(Convention):
    """torchtune: everything in bfloat16; its ladder names the steps, each on top of those before it."""

    software: str = "torch"

    def adapt(self, dims: Dimensions) -> Dimensions:
        small = dims.hidden <= 3072  # Llama 3.2 of 1B and 3B share embedding and output layer
        return dataclasses.replace(dims, tied=small)

    def framework(self, row: Row) -> Framework:
        step = _ladder(row)
        if step >= 2:
            return frameworks.TORCH_CHUNKED
        return frameworks.TORCH_COMPILED if step == 1 or "compile" in row.get("dtype", "") else frameworks.TORCH_EAGER

    def states(self, row: Row, accumulates: bool) -> States:
        del accumulates
        step = _ladder(row)
        return States(weight=2, gradient=0 if step >= 4 else 2, master=0, moments=2 if step >= 6 else 4, gradients_live=False)

    def refuses_memory(self, row: Row) -> str:
        return "" if "ladder" in row.get("notes", "") else "the optimizer is not stated"


def _ladder(row: Row) -> int:
    """The last step of torchtune's ladder that a row is past: 0 packed ... 6 8-bit optimizer; -1 for none of them."""
    steps = ("packed", "compile", "chunked", "activation checkpointing", "optimizer_in_bwd", "activation offloading", "8-bit")
    said = row.get("notes", "").lower().partition(";")[0]
    return max((index for index, step in enumerate(steps) if step in said), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Galvatron(Convention):
    """Galvatron's profiles: the activation peak of one rank; the profiler's bsz counts micro batches of two (its bytes a layer
    are exactly the count of activations.py for twice the stated sequences)."""

    software: str = "torch"
    activations_only: bool = True
    knows_micro_batch: bool = True

    def framework(self, row: Row) -> Framework:
        del row
        return frameworks.GALVATRON

    def micro_batch(self, batch: int | None, data_parallel: int) -> int:
        return max(1, 2 * (batch or 1) // data_parallel)

    def split_vocabulary(self, row: Row) -> bool:
        return "vtp" in row.get("zero_or_fsdp", "")

    def gib(self, memory: Memory, row: Row) -> float:
        rank = re.search(r"rank (\d+)", row.get("notes", ""))
        stage = memory.stages[0 if rank is None or rank[1] == "0" else -1]
        passing = ("activations", "logits and loss", "workspace", "communication")
        return sum(stage.items[name] for name in passing) / GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MindFormers(Convention):
    """mindformers on Ascend: what recipes are."""

    software: str = "mindformers"

    def framework(self, row: Row) -> Framework:
        del row
        return frameworks.MINDSPORE


def convention_of(row: Row, device: Hardware) -> Convention:
    """The convention of a row: by its source, else by its sharding, device and how it names recomputation."""
    source = row.get("source", "").lower()
    if "galvatron" in source:
        return Galvatron()
    if "torchtune" in source:
        return Torchtune()
    if "deepspeed" in source or "bloom" in source:
        return DeepSpeedBloom()
    if "checkpoint-activations" in row.get("recompute", "") or "sc21" in source:
        return Unfused()
    if "mindformers" in source:
        return MindFormers()
    if device.target == "Ascend":
        return Convention(software="mindspeed")
    if "fsdp" in row.get("zero_or_fsdp", "").lower() and "megatron" not in source:
        return TorchFsdp()
    return Convention()
