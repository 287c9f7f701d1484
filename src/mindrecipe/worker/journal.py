"""The files a rank reports in: its events, (rank 0) one line of metrics a step, its own step times, what it uses of the machine.

Lines are flushed as they are written, so that whoever reads along, or reads after a kill, has every finished line.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from mindrecipe.errors import UserError
from mindrecipe.measure.record import Event, RankStep, StepRecord, Usage, event, to_line
from mindrecipe.worker.failure import headline


class Journal:
    """Append-only writer of one rank. ``metrics``, ``rank_steps`` and ``usage`` are None for ranks that write none."""

    def __init__(self, events: Path, metrics: Path | None, rank: int, *, rank_steps: Path | None = None, usage: Path | None = None) -> None:
        self._rank = rank
        self._lock = threading.Lock()  # checkpoints are finished, and told, by a thread
        self._events = _open(events)
        self._metrics = None if metrics is None else _open(metrics)
        self._rank_steps = None if rank_steps is None else _open(rank_steps)
        self._usage = None if usage is None else _open(usage)
        self.also: Callable[[StepRecord], None] | None = None

    def phase(self, phase: str, **detail: Any) -> None:
        """This rank enters ``phase`` (see :data:`mindrecipe.measure.record.PHASES`)."""
        self._write(self._events, event(phase, self._rank, os.getpid(), **detail))

    def failed(self, error: BaseException) -> None:
        """The run of this rank ends with ``error``: an event with its type, its one meaningful line (all of a UserError: it has a place
        and a mend) and its traceback."""
        self.phase(
            "error",
            type=type(error).__name__,
            message=str(error) if isinstance(error, UserError) else headline(error),
            traceback="".join(traceback.format_exception(error)),
            **getattr(error, "facts", {}),
        )

    def step(self, record: StepRecord) -> None:
        """One optimizer step, to metrics.jsonl and to what is told it ``also``; nothing on ranks without a metrics file."""
        if self._metrics is not None:
            self._write(self._metrics, record)
        if self.also is not None:
            self.also(record)

    @property
    def tells_rank_steps(self) -> bool:
        """Whether this rank writes its own step times."""
        return self._rank_steps is not None

    def rank_step(self, record: RankStep) -> None:
        """One step as this rank saw it."""
        if self._rank_steps is not None:
            self._write(self._rank_steps, record)

    def usage(self, sample: Usage) -> None:
        """What this rank and its host used; called from a thread of its own, the only one that writes this file."""
        if self._usage is not None:
            self._write(self._usage, sample)

    def _write(self, file: TextIO, record: Event | StepRecord | RankStep | Usage) -> None:
        with self._lock:
            file.write(to_line(record))
            file.flush()


def _open(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8")
