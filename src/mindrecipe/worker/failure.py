"""Failures of a rank: the ones we raise, and the one line that says what an exception of mindspore's means.

A graph compile error of mindspore is a page long: rulers, headings, then the cause, then C++ call stacks and the lines of the
network it happened in. A person first needs the cause.
"""

from __future__ import annotations

from typing import Any

_HEADINGS = (
    "Kernel select failed",
    "The Function Call Stack",
    "C++ Call Stack",
    "Framework Error Message",
    "Ascend Error Message",
    "Framework Unexpected Exception",
    "Additional Memory Information",
)
_LONGEST = 500


class Diverged(Exception):
    """Training came to nothing: the loss is not a number, or no update has been applied for a while.

    ``facts``: ``step``, the first bad step, and ``loss``.
    """

    def __init__(self, what: str, *, step: int, loss: float) -> None:
        super().__init__(what)
        self.facts: dict[str, Any] = {"step": step, "loss": str(loss)}


class Overflow(Diverged):
    """The gradients overflow at every step: no update is made any more."""


def headline(error: BaseException) -> str:
    """The first line of the message that says something, at most 500 characters; the type's name if there is none."""
    for line in str(error).splitlines():
        text = line.strip().lstrip("-# ").rstrip("- :")
        if text and not text.startswith(_HEADINGS):
            return line.strip()[:_LONGEST]
    return type(error).__name__
