"""How a command line ended, as tests look at it."""

from __future__ import annotations

from typing import NamedTuple


class Said(NamedTuple):
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str
