"""What the builder process tells the launcher while it works, as JSON lines."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import IO

PHASES = ("hash", "wait", "tokenizer", "rows", "index")
INTERVAL = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a build is. ``done`` and ``total`` are bytes of source text, ``tokens`` ids so far, ``seconds`` since it started.

    ``phase``: "hash" reads the sources to find out what is in them, "wait" waits for another process that builds the same, "tokenizer"
    trains the BPE, "rows" tokenizes, packs and writes, "index" closes the files.
    """

    phase: str
    done: int
    total: int
    tokens: int
    seconds: float


class ProgressWriter:
    """Writes :class:`Progress` lines to ``out``, at most a few a second within one phase."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._started = time.monotonic()
        self._last = 0.0
        self._phase = ""

    def __call__(self, phase: str, done: int, total: int, tokens: int = 0) -> None:
        """Report, unless the last report of this phase was just now."""
        now = time.monotonic()
        if phase == self._phase and now - self._last < INTERVAL:
            return
        self._phase, self._last = phase, now
        progress = Progress(phase=phase, done=done, total=total, tokens=tokens, seconds=round(now - self._started, 3))
        self.line({"progress": asdict(progress)})

    def line(self, message: dict[str, object]) -> None:
        """Write one message."""
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()
