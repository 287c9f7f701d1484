"""Figures as a person reads them, in a few characters each."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "_.-~=+*#"


def duration(seconds: float) -> str:
    """0:07, 12:40, 3:05:00, 2d 03:00."""
    whole = max(0, round(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}d {hours % 24:02d}:{minute:02d}"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def seconds(value: float) -> str:
    """43 ms, 1.24 s, 75 s."""
    if value < 0.9995:
        return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def quantity(value: float) -> str:
    """Three significant digits with k, M, G: 980, 12.3k, 4.56M."""
    if not math.isfinite(value):
        return str(value)
    for suffix in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            if suffix == "" and float(value).is_integer():
                return f"{value:.0f}"
            return f"{value:#.3g}".rstrip(".") + suffix
        value /= 1000
    return f"{value:.4g}T"


def size(count: int) -> str:
    """Bytes in binary units: 512 B, 1.21 GiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.2f} TiB"


def tflops(value: float) -> str:
    """TFLOP/s, or GFLOP/s where it is little."""
    return f"{value:.3g} TFLOP/s" if value >= 1 else f"{value * 1000:.3g} GFLOP/s"


def loss(value: float) -> str:
    """Four decimals: enough to compare two runs by eye."""
    return f"{value:.4f}"


def shown_path(path: Path | str, base: Path | None = None) -> str:
    """Relative to the current folder where the path lies inside it, else as it is."""
    text = os.fspath(path)
    root = os.fspath(base or Path.cwd())
    return os.path.relpath(text, root) if os.path.isabs(text) and (text + os.sep).startswith(root.rstrip(os.sep) + os.sep) else text


def cut_left(text: str, width: int, *, ascii_only: bool = False) -> str:
    """The end of a text that is too wide: of a path its last parts say most."""
    mark = "..." if ascii_only else "…"
    if len(text) <= width:
        return text
    return mark + text[len(text) - width + len(mark) :] if width > len(mark) else text[-width:] if width > 0 else ""


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """At most ``width`` characters whose heights follow the values; what is not finite is shown as "!"."""
    if width <= 0 or not values:
        return ""
    count = min(width, len(values))
    bounds = [round(index * len(values) / count) for index in range(count + 1)]
    means = [_mean(values[low:high]) for low, high in pairwise(bounds)]
    finite = [value for value in means if math.isfinite(value)]
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    if not finite:
        return "!" * count
    low, span = min(finite), max(finite) - min(finite)
    return "".join(_block(value, low, span, blocks) for value in means)


def _block(value: float, low: float, span: float, blocks: str) -> str:
    if not math.isfinite(value):
        return "!"
    return blocks[0] if span == 0 else blocks[min(len(blocks) - 1, int((value - low) / span * len(blocks)))]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
