"""What a person sees of a run: a live view on a terminal, plain lines in a pipe, or only the summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from rich.console import Console

from mindrecipe.measure.view.base import Header, View
from mindrecipe.measure.view.live import LiveView
from mindrecipe.measure.view.plain import PlainView

__all__ = ["Header", "LiveView", "PlainView", "View", "make_view"]


def make_view(
    console: str = "auto",
    *,
    log_steps: int = 1,
    stream: TextIO | None = None,
    errors: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> View:
    """The view that ``monitor.console`` names: auto, live, plain or quiet.

    auto is live on a terminal that can move its cursor, plain in a pipe and under CI. Plain lines go to ``stream`` (stdout),
    failures to ``errors`` (stderr).
    """
    stream = stream or sys.stdout
    if console == "auto":
        able = stream.isatty() and environ.get("TERM", "") not in ("", "dumb") and not environ.get("CI")
        console = "live" if able else "plain"
    if console == "live":
        return LiveView(Console(file=stream, highlight=False))
    if console in ("plain", "quiet"):
        return PlainView(stream, errors or sys.stderr, log_steps=log_steps, quiet=console == "quiet")
    raise ValueError(f"unknown console {console!r}, one of auto, live, plain, quiet")
