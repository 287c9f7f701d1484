"""How a knob is declared: a dataclass field that carries its own documentation.

Every field of the schema is made by :func:`knob`, so that `mindrecipe show`, the checks and the
generated reference read the unit, the choices and the bounds from the same place as the type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class KnobDoc:
    """What a person needs to know about one knob.

    ``unit`` is free text ("tokens", "GB"); ``choices`` are the only legal values (``None`` as a value is
    governed by the type, not by this list); ``ge``/``le`` bound numbers, ``gt`` excludes its bound.
    """

    doc: str
    unit: str | None = None
    choices: tuple[str, ...] = ()
    ge: float | None = None
    gt: float | None = None
    le: float | None = None


def knob(
    default: Any = dataclasses.MISSING,
    doc: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    unit: str | None = None,
    choices: Sequence[str] = (),
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
) -> Any:
    """Declare a field of the schema together with its documentation (see :class:`KnobDoc`)."""
    metadata: Mapping[str, Any] = {"knob": KnobDoc(doc, unit, tuple(choices), ge, gt, le)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def doc_of(field: dataclasses.Field[Any]) -> KnobDoc:
    """The documentation of a field made by :func:`knob` (empty for a section)."""
    found = field.metadata.get("knob")
    return found if isinstance(found, KnobDoc) else KnobDoc("")
