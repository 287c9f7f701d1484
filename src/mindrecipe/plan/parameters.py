"""Parameters: what each layer, stage and rank holds. The sum over all ranks, replicas once, is the model's count exactly.

Matrices are split over tensor_parallel, experts over expert_parallel as well, norms are replicated (Shoeybi et al. 2019,
arXiv 1909.08053). The first stage holds the embedding, the last the final norm and the output layer; tied embeddings are held by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mindrecipe.plan.job import Dimensions, Job, Layout
from mindrecipe.plan.stages import counts


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts by what shares them: ``split`` over tensor_parallel, ``expert`` over expert_parallel too, ``copied`` on each rank.

    ``shared``: shared experts, split where experts are. ``vocabulary``: the output matrix, ``table``: the embedding, both split only where
    the layout says so.
    """

    split: int = 0
    expert: int = 0
    copied: int = 0
    vocabulary: int = 0
    table: int = 0
    shared: int = 0

    def __add__(self, other: Parameters) -> Parameters:
        return Parameters(
            self.split + other.split,
            self.expert + other.expert,
            self.copied + other.copied,
            self.vocabulary + other.vocabulary,
            self.table + other.table,
            self.shared + other.shared,
        )

    def __mul__(self, times: int) -> Parameters:
        return Parameters(
            self.split * times,
            self.expert * times,
            self.copied * times,
            self.vocabulary * times,
            self.table * times,
            self.shared * times,
        )

    @property
    def total(self) -> int:
        return self.split + self.expert + self.copied + self.vocabulary + self.table + self.shared

    def per_rank(self, layout: Layout) -> float:
        """What one rank of a layout holds of them."""
        tensor = layout.tensor_parallel
        vocabulary = self.vocabulary / (tensor if layout.split_vocabulary else 1) + self.table / layout.table_shards
        shared = self.shared / (tensor if layout.expert_tensor else 1)
        return self.split / tensor + self.experts_per_rank(layout) + self.copied + shared + vocabulary

    def spread(self, layout: Layout) -> float:
        """What of it lies whole on each rank and is shared by all devices of a stage where states are sharded: mcore's copied matrices."""
        return 0.0 if layout.expert_tensor else float(self.copied + self.shared)

    def experts_per_rank(self, layout: Layout) -> float:
        """What of it are experts."""
        return self.expert / (layout.expert_parallel * (layout.tensor_parallel if layout.expert_tensor else 1))


@lru_cache(maxsize=4096)
def layer(dims: Dimensions, moe: bool) -> Parameters:
    """One transformer layer, with experts or dense."""
    hidden, biases = dims.hidden, dims.biases
    query, key = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    attention = hidden * (2 * query + 2 * key) + (query + 2 * key if biases else 0)
    copied = dims.norms + (hidden + 4 * hidden if biases else 0)  # bias behind each row-parallel matrix, two vectors a norm
    if dims.latent:
        attention = dims.latent.split(hidden, dims.heads)
        copied += dims.latent.whole(hidden, dims.heads)
    matrices = dims.feed_forward_matrices
    if not moe:
        wide = dims.feed_forward * (matrices - 1)
        return Parameters(
            split=attention + matrices * hidden * dims.feed_forward + (wide if biases else 0), copied=copied + (hidden if biases else 0)
        )
    router = hidden * dims.experts if dims.router else 0
    return Parameters(
        split=attention,
        expert=dims.experts * matrices * hidden * dims.expert_width,
        copied=copied + router + hidden * dims.shared_gate,
        shared=matrices * hidden * dims.shared_width,
    )


def embedding(dims: Dimensions) -> Parameters:
    """Token embedding and learned positions."""
    return Parameters(table=dims.vocab * dims.hidden, copied=dims.positions * dims.hidden)


def head(dims: Dimensions) -> Parameters:
    """Final norm and output layer; nothing of the latter where it is tied."""
    return Parameters(
        vocabulary=0 if dims.tied else dims.vocab * dims.hidden, copied=dims.final_norm + (2 * dims.hidden if dims.biases else 0)
    )


def is_moe(dims: Dimensions, index: int) -> bool:
    """Whether layer ``index`` of the model has experts."""
    return dims.experts > 0 and index >= dims.dense_layers


def model(dims: Dimensions) -> int:
    """All parameters of the model."""
    dense = dims.layers if not dims.experts else min(dims.dense_layers, dims.layers)
    layers = dense * layer(dims, False).total + (dims.layers - dense) * layer(dims, True).total
    return layers + embedding(dims).total + head(dims).total


def active(dims: Dimensions) -> int:
    """Parameters a token is multiplied with: all matrices, but of the experts only those it visits; no lookup."""
    moe = max(0, dims.layers - dims.dense_layers) if dims.experts else 0
    dense = layer(dims, False)
    share = dims.experts_per_token / dims.experts if dims.experts else 0
    latent = dims.latent.whole(dims.hidden, dims.heads) if dims.latent else 0
    count = (dims.layers - moe) * (dense.split + latent - _bias_of(dims))
    if moe:
        with_experts = layer(dims, True)
        count += moe * (
            with_experts.split
            + latent
            + with_experts.shared
            + int(with_experts.expert * share)
            + dims.hidden * (dims.experts + dims.shared_gate)
        )
    return count + dims.vocab * dims.hidden


def _bias_of(dims: Dimensions) -> int:
    if not dims.biases:
        return 0
    return dims.heads * dims.head_dim + 2 * dims.kv_heads * dims.head_dim + dims.feed_forward * (dims.feed_forward_matrices - 1)


def of_stage(job: Job, stage: int) -> Parameters:
    """What the devices of ``stage`` hold: its layers, the embedding in the first, the head in the last."""
    dims, layout = job.dims, job.layout
    dense, moe = counts(job)[stage]
    held = layer(dims, False) * dense
    if moe:
        held += layer(dims, True) * moe
    if stage == 0:
        held += embedding(dims)
    if stage == last_stage(layout):
        held += head(dims)
        if dims.tied and stage > 0:
            held += Parameters(vocabulary=dims.vocab * dims.hidden)
    return held


def last_stage(layout: Layout) -> int:
    """The stage that computes the loss: in the V of zero-bubble it is the first again."""
    return 0 if layout.schedule == "zero_bubble_v" else layout.pipeline - 1
