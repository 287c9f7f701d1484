"""Text that was meant as a value: `1e-5` (YAML 1.1 wants a dot), `None` (YAML writes null), `Flase`.

mindformers gets the text and breaks on it, or takes it for true. Numbers and nothing are unmistakable and are mended; what can't be
told is left and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.bridge.compare import dotted
from mindrecipe.bridge.nodes import Lines
from mindrecipe.bridge.notes import Note

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)[eE][+-]?\d+")
_NOTHING = ("None", "none", "NONE")
#: keys for which mindformers itself writes and reads the text 'None' (models/llama/llama_config.py:162)
_TEXT_NONE = ("extend_method",)
_UNREAD = ("processor",)
#: last words of keys that hold free text
_FREE_TEXT = re.compile(r"(name|prefix|suffix|path|dir|file|files|text|prompt|token|url|version|date|id)s?$|input_data", re.IGNORECASE)
_BOOLEAN = {"flase": False, "fasle": False, "ture": True, "treu": True, "false": False, "true": True}


def mended(tree: dict[str, Any], lines: Lines) -> tuple[dict[str, Any], list[Note]]:
    """A copy of ``tree`` with such text made a value, and what was mended or is wrong."""
    notes: list[Note] = []

    def visit(value: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(value, dict):
            return {key: visit(child, (*path, key)) for key, child in value.items()}
        if isinstance(value, list):
            return [visit(child, (*path, place)) for place, child in enumerate(value)]
        return _scalar(value, path, lines, notes) if isinstance(value, str) else value

    # what only prediction reads stays as it is: there a token may really be called None
    return {key: value if key in _UNREAD else visit(value, (key,)) for key, value in tree.items()}, notes


def _scalar(value: str, path: tuple[Any, ...], lines: Lines, notes: list[Note]) -> Any:
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    line = lines.get(path)
    if value in _NOTHING and key not in _TEXT_NONE:
        notes.append(
            Note(kind="mended", key=dotted(path), value=None, line=line, text=f"the text {value!r} read as null: YAML has no {value}")
        )
        return None
    if _NUMBER.fullmatch(value) and not _FREE_TEXT.search(key):
        number = float(value)
        notes.append(
            Note(
                kind="mended",
                key=dotted(path),
                value=number,
                line=line,
                text=f"the text {value!r} read as {number!r}: YAML 1.1 wants a dot in it",
            )
        )
        return number
    meant = _BOOLEAN.get(value.strip().lower())
    if meant is not None:
        word = str(meant).lower()
        text = f"the text {value!r} is no truth value, and any text counts as true: {word} may be meant"
        notes.append(Note(kind="wrong", key=dotted(path), value=value, line=line, mend=word, text=text))
    return value


def leaves(tree: Mapping[Any, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(path, value) of everything that is no mapping; an empty mapping is a value."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value
