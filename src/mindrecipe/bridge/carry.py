"""What a Hydra file can't carry although YAML can: found before it is written, so that nothing is lost in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.bridge.compare import dotted
from mindrecipe.bridge.notes import Note


def uncarried(knobs: Mapping[str, Any]) -> list[Note]:
    """Values that Hydra would read differently from how mindformers reads them."""
    return [
        Note(kind="differs", key=dotted(path).removeprefix("native."), value=value, text=why)
        for path, value, why in _visit(dict(knobs), ())
    ]


def _visit(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield (*path, key), key, f"the key {key!r} becomes the text {str(key)!r} in a recipe"
            yield from _visit(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _visit(inner, (*path, place))
    elif value == "???":
        yield path, value, "Hydra takes '???' for a value that is still to be given"
    elif value is not None and not isinstance(value, str | int | float | bool):
        yield path, value, f"a {type(value).__name__} becomes text in a recipe"
