"""FLOPs of a token: 6 per matrix parameter and attention; what recomputation adds counts for HFU, not for MFU.

Narayanan et al. 2021 (arXiv 2104.04473, section 5.1) for the passes: a forward, a backward of twice its cost, and a second
forward with full recomputation; PaLM (arXiv 2204.02311, appendix B) for MFU's convention, which does not deduct the causal mask.
"""

from __future__ import annotations

from functools import lru_cache

from mindrecipe.plan import parameters
from mindrecipe.plan.activations import full_layers
from mindrecipe.plan.job import Dimensions, Job
from mindrecipe.plan.stages import counts


def attention_per_layer(dims: Dimensions) -> float:
    """Forward FLOPs of one token's scores and their product with the values, the causal mask not deducted."""
    width = dims.heads * (dims.latent.head + dims.latent.value) if dims.latent else 2 * dims.heads * dims.head_dim
    return 2.0 * width * dims.seq


@lru_cache(maxsize=256)
def model_flops(dims: Dimensions) -> float:
    """FLOPs of one token, forward and backward: what MFU counts (models/family.py, flops_per_token, for dense models)."""
    return 6.0 * parameters.active(dims) + 3.0 * dims.layers * attention_per_layer(dims)


@lru_cache(maxsize=256)
def layer_matmul(dims: Dimensions, moe: bool) -> float:
    """Forward FLOPs of one token in the matrices of one layer."""
    held = parameters.layer(dims, moe)
    share = dims.experts_per_token / dims.experts if moe else 0
    latent = dims.latent.whole(dims.hidden, dims.heads) if dims.latent else 0
    return 2.0 * (held.split + latent + held.shared + held.expert * share + (dims.hidden * dims.experts if moe else 0))


def passes(job: Job, layers: int, stage: int) -> tuple[float, float]:
    """(matrix passes, attention passes) of a layer of ``stage`` on average, in forwards: 3, and 4 where all is computed again."""
    whole = full_layers(job, stage, layers) / layers if layers else 0.0
    core = whole + (1 - whole) * (job.recompute.policy == "attention")
    return 3 + whole, 3 + core


def hardware_flops(job: Job) -> float:
    """FLOPs of one token with what is computed again: what HFU counts."""
    extra = 0.0
    dense_flops, core_flops = layer_matmul(job.dims, False), attention_per_layer(job.dims)
    moe_flops = layer_matmul(job.dims, True) if job.dims.experts else 0.0
    for stage, (dense, moe) in enumerate(counts(job)):
        matrix, core = passes(job, dense + moe, stage)
        extra += (matrix - 3) * (dense * dense_flops + moe * moe_flops) + (core - 3) * (dense + moe) * core_flops
    return model_flops(job.dims) + extra
