"""What has been understood of a native configuration: our knobs, and which native key each came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mindrecipe.bridge.compare import MISSING, dotted
from mindrecipe.bridge.nodes import Lines
from mindrecipe.bridge.notes import Note
from mindrecipe.bridge.renames import at
from mindrecipe.config.convert import value_of


@dataclass(slots=True)
class Raised:
    """``tree`` is the native configuration, ``values`` knob -> value, ``sources`` native path -> the knob it became."""

    tree: dict[str, Any]
    lines: Lines
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[tuple[Any, ...], str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def get(self, *path: Any, default: Any = None) -> Any:
        """The native value at ``path``."""
        value = at(self.tree, path)
        return default if value is MISSING else value

    def has(self, *path: Any) -> bool:
        """Whether the native key is there."""
        return at(self.tree, path) is not MISSING

    def section(self, *path: Any) -> dict[str, Any]:
        """The native mapping at ``path``; an empty one where there is none."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def take(self, knob: str, *path: Any, default: Any = MISSING) -> bool:
        """Set ``knob`` to the native value at ``path``, or to what mindformers takes without it. False where the knob can't hold it."""
        value = at(self.tree, path)
        if value is MISSING:
            return default is MISSING or self.put(knob, default)
        if self.put(knob, value, *path):
            return True
        if default is not MISSING:
            self.put(knob, default)
        return False

    def put(self, knob: str, value: Any, *path: Any) -> bool:
        """Set ``knob`` to ``value``, which comes from ``path``; a value the knob can't hold is noted as wrong and stays native."""
        converted, findings = value_of(knob, value)
        if findings:
            # several ends of a text are fine with mindformers: only the knob has no place for them
            if path and not (knob.endswith("_token_id") and isinstance(value, list)):
                found = findings[0]
                text = f"{_as_text(found.what)} ({knob}); kept as written"
                self.note("wrong", path, text, value=value, mend=found.mend)
            return False
        self.values[knob] = converted
        if path:
            self.sources[path] = knob
        return True

    def mark(self, knob: str, *path: Any) -> None:
        """Say that the native key at ``path`` has its say in ``knob``."""
        self.sources[path] = knob

    def note(
        self, kind: Any, path: tuple[Any, ...], text: str, *, value: Any = None, mend: str | None = None, source: str | None = None
    ) -> None:
        """Say something about a native key."""
        self.notes.append(Note(kind=kind, key=dotted(path), text=text, value=value, mend=mend, source=source, line=self.lines.get(path)))


def _as_text(what: str) -> str:
    """The knob's own name leads the finding; the note names the native key already."""
    _, _, rest = what.partition("=")
    return rest or what
