"""`train` as a process of its own: started, followed through the files it writes, held and let go, stopped."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from mindrecipe.errors import UserError
from mindrecipe.judge.recorded import SUMMARY, Recorded
from mindrecipe.measure.record import StepRecord, step_from_line
from mindrecipe.measure.tail import LineTail, last_lines

COMMAND = (sys.executable, "-c", "from mindrecipe.cli.train import main; main()")


def words_of(text: str) -> list[str]:
    """Overrides in one argument ("+model=llama2_tiny amp=O2"), or the name of a recipe."""
    words = shlex.split(text)
    return words if any("=" in word for word in words) else [f"+recipe={word}" for word in words]


def with_words(words: Sequence[str], *more: str) -> list[str]:
    """``words`` with ``more`` over them: what is said again replaces what was said."""
    key = re.compile(r"\+*([^=]+)=")
    given = {match.group(1) for word in more if (match := key.match(word))}
    return [*(word for word in words if not ((match := key.match(word)) and match.group(1) in given)), *more]


class Training:
    """A `train` of ``words`` in the run directory ``path``, which must not exist; what it says goes to ``<path>.log``."""

    def __init__(self, words: Sequence[str], path: Path) -> None:
        self.words = list(words)
        self.path = path
        self.log = path.with_name(f"{path.name}.log")
        self._steps = LineTail(path / "metrics.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            line = [*COMMAND, *with_words(self.words, f"run.dir={path}", "monitor.console=plain")]
            self._process = psutil.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def new_steps(self) -> list[StepRecord]:
        """Steps recorded since the last call."""
        return [step_from_line(line) for line in self._steps.read()]

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return int(self._process.wait())

    def hold(self) -> None:
        """Stop the clock of the launcher and all of its ranks (SIGSTOP): no step goes on until :meth:`go`."""
        self._send(signal.SIGSTOP)

    def go(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def stop(self) -> None:
        """End it as Ctrl-C does, if it has not ended, and wait."""
        if not self.running:
            return
        self.go()
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def require_success(self) -> Recorded:
        """The finished run. UserError with what it said where it did not complete."""
        code = self.wait()
        run = Recorded(self.path)
        if code == 0 and run.summary.get("state") == "completed":
            return run
        said = "\n".join(last_lines(self.log, 8))
        raise UserError(f"train {shlex.join(self.words)} failed (exit code {code}):\n{said}", mend=f"the whole of what it said: {self.log}")

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self._process, *self._process.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def finished(path: Path) -> Recorded | None:
    """The run of an earlier try in ``path``, where it completed; a table that is made again goes on after those it has."""
    if not (path / SUMMARY).is_file():
        return None
    with contextlib.suppress(json.JSONDecodeError, UserError):
        run = Recorded(path)
        return run if run.summary.get("state") == "completed" else None
    return None
