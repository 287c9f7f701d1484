"""What a simulated rank reports of itself: the tensors it holds, and what MindSpore measured of its dry run.

Written by the worker, read by the launcher; no mindspore here.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

Kind = Literal["weight", "gradient", "state"]

BYTES = {"Float32": 4, "Float16": 2, "BFloat16": 2, "Int32": 4, "Int64": 8, "Float64": 8, "Int8": 1, "UInt8": 1, "Bool": 1}
"""Bytes of an element, by mindspore's names of dtypes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A tensor that stays on the device from step to step.

    ``full`` is its shape in the model, ``shape`` the slice of this rank. ``kind``: a weight, a buffer gradients are summed in, or
    the optimizer's state.
    """

    name: str
    kind: Kind
    full: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """Elements of the slice."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the slice."""
        return self.elements * BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Of one rank. ``peak_bytes`` is MindSpore's peak without fragments; ``compile_seconds`` of the step's graph, on this host."""

    rank: int
    held: tuple[Held, ...]
    peak_bytes: int
    compile_seconds: float

    def bytes_of(self, kind: Kind) -> int:
        """Bytes of all tensors of a kind."""
        return sum(each.bytes for each in self.held if each.kind == kind)

    def elements_of(self, kind: Kind) -> int:
        """Elements of all tensors of a kind."""
        return sum(each.elements for each in self.held if each.kind == kind)


def write(holdings: Holdings, path: Path) -> None:
    """Write to ``path``: whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(json.dumps(asdict(holdings), indent=1) + "\n", encoding="utf-8")
    os.replace(fresh, path)


def read(path: Path) -> Holdings:
    """What :func:`write` wrote."""
    return from_plain(json.loads(path.read_text(encoding="utf-8")))


def from_plain(raw: dict[str, Any]) -> Holdings:
    """Holdings of their plain values."""
    held = tuple(Held(**(each | {"full": tuple(each["full"]), "shape": tuple(each["shape"])})) for each in raw["held"])
    return Holdings(**(raw | {"held": held}))
