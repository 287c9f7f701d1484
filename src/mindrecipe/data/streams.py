"""Standard output kept for messages between our processes, whatever else a library prints."""

from __future__ import annotations

import os
from typing import IO


def private_stdout() -> IO[bytes]:
    """This process's stdout, ours alone: from now on, what others print to stdout lands on stderr."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out
