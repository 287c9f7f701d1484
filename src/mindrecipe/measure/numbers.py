"""Numbers that JSON does not have: NaN and infinities are written as the strings "nan", "inf", "-inf", and read back."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def told(value: Any) -> Any:
    """The inverse of :func:`plain`; other strings stay what they are."""
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items()}
    return float(value) if value in ("nan", "inf", "-inf") else value
