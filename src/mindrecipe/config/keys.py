"""Every key the schema knows, and the nearest ones to a key it does not know."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
import typing
from typing import Any

from mindrecipe.config.schema import KnobDoc, RunConfig, doc_of

#: free mappings of mindformers' own keys at the top of a run
FREE = ("native", "omit")


@dataclasses.dataclass(frozen=True, slots=True)
class Knob:
    """One key of the schema: its dotted name, type, default and documentation."""

    key: str
    type: Any
    default: Any
    doc: KnobDoc

    @property
    def is_free_mapping(self) -> bool:
        """A mapping whose keys are not ours to know (native, extra, env)."""
        return typing.get_origin(self.type) is dict


def sections() -> dict[str, type]:
    """Section name -> its dataclass, in the schema's order (``native`` and ``omit`` are free mappings, no sections)."""
    hints = typing.get_type_hints(RunConfig)
    return {field.name: hints[field.name] for field in dataclasses.fields(RunConfig) if dataclasses.is_dataclass(hints[field.name])}


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    """Name -> type of the fields of a section (working them out takes longer than converting a value)."""
    return typing.get_type_hints(cls)


@functools.cache
def knobs() -> dict[str, Knob]:
    """All knobs by dotted key."""
    found: dict[str, Knob] = {}
    for section, cls in sections().items():
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            key = f"{section}.{field.name}"
            found[key] = Knob(key, hints[field.name], _default(field), doc_of(field))
    for field in dataclasses.fields(RunConfig):
        if field.name in FREE:
            found[field.name] = Knob(field.name, dict[str, Any], {}, doc_of(field))
    return found


def value_of(config: RunConfig, key: str) -> Any:
    """What ``config`` has for the knob ``key``."""
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name) if name else getattr(config, section)


def with_value(config: RunConfig, key: str, value: Any) -> RunConfig:
    """``config`` with another ``value`` of the knob ``key``."""
    section, _, name = key.partition(".")
    return dataclasses.replace(config, **{section: dataclasses.replace(getattr(config, section), **{name: value}) if name else value})


def is_known(key: str) -> bool:
    """Whether ``key`` names a section, a knob, or something inside a free mapping."""
    return key in sections() or key in knobs() or free_mapping_of(key) is not None


def free_mapping_of(key: str) -> str | None:
    """The free mapping that ``key`` lies in ("launch.env.FOO" -> "launch.env"), or None."""
    parts = key.split(".")
    for end in range(1, len(parts)):
        knob = knobs().get(".".join(parts[:end]))
        if knob is not None and knob.is_free_mapping:
            return knob.key
    return None


def nearest_word(word: str, words: typing.Iterable[str], limit: int = 3) -> list[str]:
    """The words that look like ``word``, also when only the case differs or the end is missing."""
    lower = {candidate.lower(): candidate for candidate in words}
    begun = sorted((match for match in lower if word and match.startswith(word.lower())), key=len)
    close = difflib.get_close_matches(word.lower(), lower, n=limit, cutoff=0.5)
    return [lower[match] for match in dict.fromkeys([*begun, *close])][:limit]


def optional_of(hint: Any) -> tuple[Any, bool]:
    """Split ``X | None`` into (X, True); anything else into (itself, False)."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        args = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        optional = len(args) < len(typing.get_args(hint))
        return (args[0] if len(args) == 1 else typing.Union[tuple(args)]), optional  # noqa: UP007 - built from values
    return hint, False


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None
