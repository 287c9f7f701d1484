"""What of the peaks is reached: 30 fitted constants, each with a meaning, one set a device and one a piece of software.

Fitted together on the 368 published throughputs that state enough (benchmarks/plan_accuracy.py shows what they explain; docs/plan.md
has the table and a five-fold check). A device or software that no published run covers borrows from its nearest, as said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindrecipe.models.hardware import Hardware
from mindrecipe.plan.job import CannotPrice, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What is reached of each peak.

    ``matmul``: share of the peak that large, aligned matrix multiplications reach; ``attention``: the same of the attention core, flash
    attention's masked half not counted. ``passes``: times the kept activations go through HBM in one pass over a layer.
    ``tensor_exposed``, ``data_exposed``: share of the communication inside a layer, and of gradients and sharded weights, that
    computation does not hide. ``misaligned``: what is left of ``matmul`` where a dimension on a rank is no multiple of 64. ``band``:
    four of five published runs lie within it.
    """

    matmul: float
    attention: float
    passes: float
    tensor_exposed: float
    data_exposed: float = 0.62
    misaligned: float = 0.70
    band: float = 0.15


#: (hardware kind, compute dtype) -> share of the peak in matrix multiplications
_MATMUL = {
    ("a100", "half"): 0.82,
    ("v100", "half"): 0.82,  # no run of its own: the A100's
    ("h100", "half"): 0.72,
    ("h100", "float8"): 0.65,
    ("blackwell", "half"): 0.72,  # no run with its dimensions: the H100's, as for the next
    ("blackwell", "float8"): 0.58,
    ("blackwell", "float4"): 0.53,
    ("blackwell ultra", "half"): 0.72,
    ("blackwell ultra", "float8"): 0.89,
    ("blackwell ultra", "float4"): 0.61,
    ("ascend", "half"): 0.71,
    ("consumer", "half"): 0.82,  # fitted with the A100
}
#: hardware kind -> share of the half peak in flash attention
_ATTENTION = {
    "a100": 0.27,
    "v100": 0.27,
    "h100": 0.41,
    "blackwell": 0.25,
    "blackwell ultra": 0.25,
    "ascend": 0.21,
    "consumer": 0.27,
}
#: where software changes it: llm-foundry's Triton kernel on Hopper
_ATTENTION_OF = {("torch fsdp", "h100"): 0.15}
#: an unfused core, whose masked half is computed as well; its softmax counts as memory traffic
_UNFUSED = 0.16
#: software -> (passes, tensor_exposed, band)
_SOFTWARE = {
    "megatron": (1.56, 0.37, 0.12),
    "megatron 2021": (1.38, 1.18, 0.12),
    "megatron deepspeed": (4.89, 1.2, 0.17),
    "mindspeed": (2.1, 1.02, 0.26),
    "mindformers": (0.97, 0.69, 0.20),
    "torch": (1.52, 0.70, 0.20),
    "torch fsdp": (2.49, 0.70, 0.08),
}
_KINDS = {
    "v100_32gb": "v100",
    "a100_40gb": "a100",
    "a100_80gb": "a100",
    "h100_80gb": "h100",
    "h200": "h100",
    "b200": "blackwell",
    "b300": "blackwell ultra",
    "gb200": "blackwell",
    "gb300": "blackwell ultra",
    "rtx_4090": "consumer",
    "rtx_a6000": "consumer",
}


def kind_of(device: Hardware) -> str:
    """What a device is fitted as; CannotPrice for one that nothing was fitted on."""
    kind = "ascend" if device.target == "Ascend" else _KINDS.get(device.name)
    if kind is None:
        raise CannotPrice(f"no throughput of {device.title} was published to fit it on")
    return kind


def efficiency_of(job: Job, software: str = "mindformers") -> Efficiency:
    """The efficiency of a job under ``software``; CannotPrice for a device or dtype that nothing was fitted on."""
    kind = kind_of(job.device)
    dtype = job.compute if job.compute in ("float8", "float4", "float32") else "half"
    if (kind, dtype) not in _MATMUL:
        instead = " (amp=O2 computes in half precision)" if dtype == "float32" else ""
        raise CannotPrice(f"no throughput of {job.device.title} in {job.compute} was published to fit it on{instead}")
    passes, tensor_exposed, band = _SOFTWARE[software]
    return Efficiency(
        matmul=_MATMUL[kind, dtype],
        attention=_ATTENTION_OF.get((software, kind), _ATTENTION[kind]) if job.dims.flash else _UNFUSED,
        passes=passes,
        tensor_exposed=tensor_exposed,
        band=band,
    )
