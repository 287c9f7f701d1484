"""What the doctor says of one thing."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("ok", "warning", "fault")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing looked at; ``level`` is one of LEVELS, ``mend`` is there where it is not fine."""

    what: str
    level: str
    told: str
    mend: str | None = None
