"""Declarative training recipes for MindSpore Transformers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindrecipe.errors import UserError as UserError
    from mindrecipe.run import Run as Run

_HOMES = {"Run": "mindrecipe.run", "UserError": "mindrecipe.errors"}
__all__ = ["Run", "UserError"]


def __getattr__(name: str) -> Any:
    """Import Run only when it is asked for: a rank imports this package too, and must not import Hydra."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mindrecipe' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
