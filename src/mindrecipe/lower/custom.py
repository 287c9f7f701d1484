"""model_config of a family that is none of ours: what was passed through, and the dimensions that ``model.keys`` names."""

from __future__ import annotations

from typing import Any

from mindrecipe.config.schema import RunConfig
from mindrecipe.models.custom import DIMENSIONS


def model_config(config: RunConfig) -> dict[str, Any]:
    """The ``model_config`` of a custom model; names in ``model.keys`` that are no dimension of ours are reported by a rule."""
    written = {
        str(native): getattr(getattr(config, DIMENSIONS[ours]), ours) for ours, native in config.model.keys.items() if ours in DIMENSIONS
    }
    return written | config.model.extra
