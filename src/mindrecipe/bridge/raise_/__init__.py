"""Native configuration -> our knobs, one module a section: the other way of lower/."""

from __future__ import annotations

from typing import Any

from mindrecipe.bridge.nodes import Lines
from mindrecipe.bridge.raise_ import checkpoint, data, machine, model, optimization, parallel, precision, recompute
from mindrecipe.bridge.raise_.raised import Raised
from mindrecipe.config.schema import ModelConfig
from mindrecipe.models.family import family_of
from mindrecipe.models.hardware import CATALOGUE

__all__ = ["Raised", "raise_tree"]


def raise_tree(tree: dict[str, Any], lines: Lines) -> Raised:
    """What can be understood of ``tree``; nothing is changed in it."""
    r = Raised(tree, lines)
    model.raise_(r)
    data.raise_(r)
    parallel.raise_(r)
    machine.raise_(r)
    family = family_of(ModelConfig(family=r.values["model.family"], architecture=r.values.get("model.architecture", "legacy")))
    precision.raise_(r, family, CATALOGUE[r.values["device.name"]])
    recompute.raise_(r)
    optimization.raise_(r)
    checkpoint.raise_(r)
    return r
