"""Llama's forward pass and its held-out loss in numpy, written from the architecture: an opinion of its own on what the worker reports."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
HEADS = 4


def token_losses(weights: dict[str, Array], rows: Array, pad: int = 0) -> tuple[float, int]:
    """Sum of cross entropies (nats) and number of the tokens of ``rows`` (count, seq + 1) that do not follow padding."""
    tokens, targets = rows[:, :-1], rows[:, 1:]
    logits = _forward(weights, tokens)
    logits -= logits.max(-1, keepdims=True)
    surprise = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    counts = tokens != pad
    return float((surprise * counts).sum()), int(counts.sum())


def _forward(weights: dict[str, Array], tokens: Array) -> Array:
    x = weights["model.tok_embeddings.embedding_weight"][tokens]
    layer = 0
    while f"model.layers.{layer}.attention.wq.weight" in weights:
        get = lambda name, at=layer: weights[f"model.layers.{at}.{name}.weight"]  # noqa: E731
        normed = _rms(x, get("attention_norm"))
        x = x + _attention(*(normed @ get(f"attention.{name}").T for name in ("wq", "wk", "wv"))) @ get("attention.wo").T
        normed = _rms(x, get("ffn_norm"))
        gate = normed @ get("feed_forward.w1").T
        x = x + (gate / (1 + np.exp(-gate)) * (normed @ get("feed_forward.w3").T)) @ get("feed_forward.w2").T
        layer += 1
    return _rms(x, weights["model.norm_out.weight"]) @ weights["lm_head.weight"].T


def _rms(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def _attention(q: Array, k: Array, v: Array) -> Array:
    batch, seq, hidden = q.shape
    q, k, v = (x.reshape(batch, seq, HEADS, -1).transpose(0, 2, 1, 3) for x in (q, k, v))
    q, k = _rotate(q), _rotate(k)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((seq, seq), bool)), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = scores / scores.sum(-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(batch, seq, hidden)


def _rotate(x: Array) -> Array:
    """Rotary embedding, halves rotated against each other."""
    seq, width = x.shape[-2:]
    angle = np.outer(np.arange(seq), 10000.0 ** (-np.arange(0, width, 2) / width))
    cos, sin = np.cos(np.concatenate([angle, angle], -1)), np.sin(np.concatenate([angle, angle], -1))
    low, high = np.split(x, 2, -1)
    return x * cos + np.concatenate([-high, low], -1) * sin
