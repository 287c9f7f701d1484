"""Numbers as people and YAML write them: what they read as, the bounds of a knob, the nearest value it takes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from mindrecipe.config import keys
from mindrecipe.config.schema import KnobDoc

#: mindformers keeps steps and sizes in int32
INT32 = 2**31 - 1


def reads_as(kind: Callable[[str], float], text: str) -> bool:
    """Whether ``text`` is a finite number of ``kind``."""
    try:
        return math.isfinite(kind(text))
    except (ValueError, OverflowError):
        return False


def any_base(text: str) -> int:
    """An integer in the base its prefix says: 0x, 0o, 0b."""
    return int(text, 0)


def other_base(text: str) -> int | None:
    """The base, other than ten, in which YAML 1.1 reads an integer that looks like a decimal number or a time."""
    if re.fullmatch(r"[-+]?0[0-7_]+", text):
        return 8
    return 60 if re.fullmatch(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+", text) else None


def clamped(knob: keys.Knob, number: float) -> Any:
    """``number``, or the nearest that the knob takes, as it is typed."""
    bound = broken_bound(knob.doc, number)
    nearest = (knob.doc.ge if "at least" in bound else knob.doc.le if "at most" in bound else None) if bound else number
    too_large = keys.optional_of(knob.type)[0] is not float and abs(number) > INT32
    return example(knob) if nearest is None or too_large else int(nearest) if float(nearest).is_integer() and bound else nearest


def as_float(number: float) -> float:
    """``number`` as a float; infinite where it is beyond them."""
    try:
        return float(number)
    except OverflowError:  # an integer beyond the floats: told as infinite
        return math.inf


def broken_bound(doc: KnobDoc, number: float) -> str | None:
    """What ``number`` would have to be, in words; None: it is within the knob's bounds."""
    if math.isnan(number) or math.isinf(number):
        return "a finite number"
    if doc.ge is not None and number < doc.ge:
        return f"at least {doc.ge:g}"
    if doc.gt is not None and number <= doc.gt:
        return f"more than {doc.gt:g}"
    if doc.le is not None and number > doc.le:
        return f"at most {doc.le:g}"
    return None


def example(knob: keys.Knob) -> str:
    """The knob's default, as it is typed on a command line."""
    return knob.default if isinstance(knob.default, str) else json.dumps(knob.default)
