"""Two native configurations compared key by key, as strictly as Python reads them: true is not 1, but 1 is 1.0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class _Missing:
    """The value of a key that is not there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(not there)"


MISSING = _Missing()
Path = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose values differ; MISSING where it is not there."""

    path: Path
    left: Any
    right: Any

    @property
    def key(self) -> str:
        """The dotted key."""
        return dotted(self.path)


def dotted(path: Path) -> str:
    """("callbacks", 0, "type") -> "callbacks.0.type"."""
    return ".".join(str(step) for step in path)


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same to mindformers."""
    kind = type(left)
    if kind is type(right) and kind in (str, bool, int, type(None)):
        return bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and bool(left == right)


def differences(left: dict[Any, Any], right: dict[Any, Any], path: Path = ()) -> Iterator[Difference]:
    """Every key whose values differ, the smallest mappings that do; lists are one value."""
    for key in [*left, *(key for key in right if key not in left)]:
        here = (*path, key)
        if key not in left:
            yield Difference(here, MISSING, right[key])
        elif key not in right:
            yield Difference(here, left[key], MISSING)
        elif isinstance(left[key], dict) and isinstance(right[key], dict):
            yield from differences(left[key], right[key], here)
        elif not same(left[key], right[key]):
            yield Difference(here, left[key], right[key])
