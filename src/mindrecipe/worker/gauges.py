"""What is measured of the network itself at a step, besides what the training step returns: memory, norms of layers, updates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_LAYER = re.compile(r"(?:^|\.)layers\.\d+(?=\.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """``memory`` is called once a step; ``update_ratio_steps`` None measures no updates."""

    memory: Callable[[], int | None]
    update_ratio_steps: int | None


def group_of(parameter: str) -> str:
    """The group a parameter's gradient is told with: its layer, else its own module ("layers.3", "tok_embeddings", "lm_head")."""
    layer = _LAYER.search(parameter)
    if layer is not None:
        return layer.group().lstrip(".")
    modules = [name for name in parameter.split(".")[:-1] if name not in ("model", "decoder", "network", "_backbone")]
    return modules[-1] if modules else parameter


class GroupNorms:
    """Norm of each group of ``names``' gradients; groups in the order of their first parameter."""

    def __init__(self, names: Sequence[str]) -> None:
        groups = [group_of(name) for name in names]
        self._groups = list(dict.fromkeys(groups))
        self._places = np.array([self._groups.index(group) for group in groups], np.intp)

    def __call__(self, square_sums: Any) -> dict[str, float]:
        """From the sum of squares of each parameter's gradient, as many as there are names (else ValueError)."""
        sums = np.bincount(self._places, weights=square_sums, minlength=len(self._groups))
        return dict(zip(self._groups, np.sqrt(sums).tolist(), strict=True))


class UpdateRatio:
    """Norm of a step's update over the norm of the weights, of this rank's share of them, at every ``every``-th step.

    The weights are copied to the host after the step before; both copies are made outside of the time that counts as computing.
    """

    def __init__(self, every: int | None) -> None:
        self._every = every
        self._before: list[Any] | None = None

    def after_step(self, step: int, weights: Sequence[Any]) -> float | None:
        """To be called after every step with its number; the ratio where it was measured."""
        if self._every is None:
            return None
        ratio = self._measure(weights) if self._before is not None else None
        self._before = [weight.asnumpy().copy() for weight in weights] if (step + 1) % self._every == 0 else None
        return ratio

    def _measure(self, weights: Sequence[Any]) -> float | None:
        assert self._before is not None
        moved = total = 0.0
        for before, weight in zip(self._before, weights, strict=True):
            old, new = before.ravel().astype(np.float64), weight.asnumpy().ravel().astype(np.float64)
            moved += float(np.dot(new - old, new - old))
            total += float(np.dot(old, old))
        return (moved / total) ** 0.5 if total else None
