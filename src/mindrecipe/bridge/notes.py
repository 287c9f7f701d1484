"""What an import has to say about one key: the words of the report, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["recognised", "passed", "dead", "renamed", "mended", "wrong", "effect", "differs"]

#: in the order they are told, with their headings
KINDS: dict[Kind, str] = {
    "recognised": "recognised",
    "passed": "passed through",
    "dead": "dead: mindformers 1.9.0 never reads it",
    "renamed": "renamed since older versions",
    "mended": "mended",
    "wrong": "wrong",
    "effect": "what mindformers will silently do",
    "differs": "not equal after the round trip",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """``key``: dotted key of the native file. ``text``: what is said of it. ``mend``: what to write instead. ``line``: where, from 1."""

    kind: Kind
    key: str
    text: str
    value: Any = None
    mend: str | None = None
    line: int | None = None
    source: str | None = None


def plain(value: Any) -> Any:
    """``value`` as JSON can have it: keys as text, and anything that is no JSON value too."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
