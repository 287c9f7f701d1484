"""Plain lines for a pipe, a log file or CI: no control codes, no wrapping, one line a fact."""

from __future__ import annotations

import re
import time
from typing import TextIO

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, StepRecord
from mindrecipe.measure.summary import Summary
from mindrecipe.measure.view import text
from mindrecipe.measure.view.base import Header
from mindrecipe.measure.view.progress import LABELS, Progress
from mindrecipe.measure.view.rows import summary_rows

_ERROR_LINES = 12
_PREPARE_EVERY = 10.0  # seconds
_DIGIT = re.compile(r"\d")


class PlainView:
    """Writes to ``stream``, failures to ``errors``; ``quiet`` keeps the summary and failures only.

    A step is written every ``log_steps`` steps, and the first and the last one always.
    """

    def __init__(self, stream: TextIO, errors: TextIO, *, log_steps: int = 1, quiet: bool = False) -> None:
        self._stream = stream
        self._errors = errors
        self._log_steps = log_steps
        self._quiet = quiet
        self._header: Header | None = None
        self._progress = Progress(None)
        self._phase: str | None = None
        self._prepared = ("", 0.0)
        self._unwritten: StepRecord | None = None

    def prepare(self, what: str) -> None:
        """One line for each new thing, and one in ten seconds while its figures change."""
        subject, now = _DIGIT.split(what)[0], time.monotonic()
        if subject != self._prepared[0] or now - self._prepared[1] > _PREPARE_EVERY:
            self._prepared = subject, now
            self._tell(what)

    def begin(self, header: Header) -> None:
        """Title and place of the run."""
        self._header = header
        self._progress = Progress(header.total_steps, header.local_ranks)
        self._tell(f"{header.title}: {header.where}")
        self._tell(f"run directory: {text.shown_path(header.run_dir)}")

    def event(self, event: Event) -> None:
        """A line when the slowest rank enters another phase, and one a checkpoint."""
        self._progress.on_event(event)
        if event.phase == "checkpoint" and event.rank == 0 and "path" in event.detail:
            self._tell(f"checkpoint of step {event.detail['step']}: {text.shown_path(event.detail['path'])}")
        phase = self._progress.phase
        if phase != self._phase and phase in ("import", "build", "compile", "evaluate"):
            self._write_last_step()
            self._tell(f"{LABELS[phase]} ({text.duration(self._progress.elapsed)})")
        self._phase = phase

    def step(self, record: StepRecord) -> None:
        """A line every ``log_steps`` steps."""
        progress = self._progress
        first = progress.first is None
        progress.on_step(record)
        self._unwritten = record
        if first or record.step % self._log_steps == 0 or record.step == progress.total_steps:
            self._write_last_step()

    def say(self, line: str) -> None:
        """The line as it is, also when quiet."""
        self._out(self._stream, line)

    def note(self, what: str) -> None:
        """The line as it is."""
        self._tell(what)

    def failure(self, error: RankError) -> None:
        """The error and its log, at once."""
        self._write_last_step()
        lines = f"{error.type}: {error.message}".splitlines()
        self._out(self._errors, f"{error.who} failed: {lines[0]}")
        for line in lines[1:_ERROR_LINES]:
            self._out(self._errors, f"  {line}")
        if self._header is not None:
            self._out(self._errors, f"  log: {text.shown_path(self._header.run_dir / error.log)}")

    def tick(self) -> None:
        """Nothing: lines come with events."""

    def end(self, outcome: Outcome, summary: Summary) -> None:
        """The summary, a label and a text a line."""
        self._write_last_step()
        if self._header is None:
            raise RuntimeError("end() before begin()")
        for row in summary_rows(self._header, outcome, summary):
            self._out(self._stream, f"{row.label:<11}{row.value}")

    def close(self) -> None:
        """Nothing to give back."""

    def _write_last_step(self) -> None:
        if self._unwritten is not None:
            self._tell(step_line(self._unwritten, self._progress))
            self._unwritten = None

    def _tell(self, line: str) -> None:
        if not self._quiet:
            self._out(self._stream, line)

    @staticmethod
    def _out(stream: TextIO, line: str) -> None:
        encoding = stream.encoding or "utf-8"
        stream.write(line.encode(encoding, errors="backslashreplace").decode(encoding) + "\n")
        stream.flush()


def step_line(record: StepRecord, progress: Progress) -> str:
    """One step: position, loss, lr, grad norm, loss scale, speed, memory, time left."""
    total = f"/{progress.total_steps}" if progress.total_steps else ""
    fields = [f"step {record.step}{total}", f"loss {text.loss(record.loss)}", f"lr {record.lr:.3e}"]
    if record.grad_norm is not None:
        fields.append(f"grad_norm {record.grad_norm:.4g}")
    if record.loss_scale is not None and record.loss_scale != 1:
        fields.append(f"loss_scale {record.loss_scale:g}")
    if record.overflow:
        fields.append("overflow")
    fields += [f"tokens/s {record.tokens_per_s:.0f}", f"s/step {record.step_time:.4g}"]
    if record.mfu is not None:
        fields.append(f"mfu {record.mfu:.1%}")
    if progress.eta is not None:
        fields.append(f"eta {text.duration(progress.eta)}")
    return "  ".join(fields)
