"""How a command line ended, as tests look at it."""

from __future__ import annotations

import signal
from typing import NamedTuple


class Said(NamedTuple):
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def as_from_a_terminal() -> None:
    """For ``preexec_fn``: Ctrl-C and a hang-up reach the child also where the tests themselves run with nohup, or in the background."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
