"""`train` as a process of its own: started, followed through the files it writes, held and let go, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from mindrecipe.config.overrides import plain
from mindrecipe.errors import UserError
from mindrecipe.judge.recorded import SUMMARY, Recorded
from mindrecipe.launch.processes import die_with
from mindrecipe.measure.record import StepRecord, step_from_line
from mindrecipe.measure.tail import LineTail, last_lines

STOP_LIMIT = 10.0  # seconds that a training has to end by itself: nobody needs what it would still save
COMMAND = (sys.executable, "-c", "from mindrecipe.cli.train import main; main()")


def words_of(text: str) -> list[str]:
    """Overrides in one argument ("+model=llama2_tiny amp=O2"), or the name of a recipe."""
    try:
        words = shlex.split(text)
    except ValueError as fault:
        raise UserError(f"{text!r} can't be cut into words: a quote in it is not closed", mend=_closed(text)) from fault
    return words if any("=" in word for word in words) else [f"+recipe={word}" for word in words]


def _closed(text: str) -> str:
    """What to type where a quote in ``text`` was meant as a letter."""
    for letters in ("'", '"', "'\""):
        escaped = re.sub(f"[{letters}]", lambda found: f"\\{found[0]}", text)
        try:
            shlex.split(escaped)
        except ValueError:
            continue
        shown = shlex.quote(escaped) if re.search(r'["$`!]', escaped) else f'"{escaped}"'
        return f"close it; one that is a letter stands behind a backslash: {shown}"
    return "close it, and leave out the backslash at the end"


def with_words(words: Sequence[str], *more: str) -> list[str]:
    """``words`` with ``more`` over them: what is said again replaces what was said."""
    given = {key for word in more if (key := key_of(word)) is not None}
    return [*(word for word in words if key_of(word) not in given), *more]


def key_of(word: str) -> str | None:
    """The key of "key=value", whatever its prefix; None for what is none."""
    match = re.match(r"\+*([^=]+)=", word)
    return None if match is None else match[1]


class Training:
    """A `train` of ``words`` in the run directory ``path``, which must not exist; what it says goes to ``<path>.log``.

    The kernel kills it when this process is gone, however it went, and its ranks with it: also one that is held.
    """

    def __init__(self, words: Sequence[str], path: Path) -> None:
        self.words = list(words)
        self.path = path
        self.log = path.with_name(f"{path.name}.log")
        self._steps = LineTail(path / "metrics.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        line = [*COMMAND, *with_words(self.words, f"run.dir={plain(str(path))}", "monitor.console=plain")]
        safe = {**os.environ, "PYTHONSAFEPATH": "1"}  # `python -c` would look for libraries in the current folder first
        with self.log.open("wb") as log:
            self._process = psutil.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=safe, preexec_fn=die_with(os.getpid()))

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
        """End it, if it has not ended, and wait."""
        stop_all([self])

    def require_success(self) -> Recorded:
        """The finished run. UserError with what it said where it did not complete."""
        code = self.wait()
        run = Recorded(self.path)
        if code == 0 and run.summary.get("state") == "completed":
            return run
        said = "\n".join(last_lines(self.log, 8))
        raise UserError(f"train {shlex.join(self.words)} failed (exit code {code}):\n{said}", mend=f"the whole of what it said: {self.log}")

    @property
    def processes(self) -> list[psutil.Process]:
        """It and all below it that live."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self._process, *self._process.children(recursive=True)]
        return [self._process]

    def ask_to_end(self) -> None:
        """SIGTERM: a shell's background job and nohup would make it deaf to Ctrl-C's signal until it launches."""
        self.go()
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.terminate()

    def _send(self, number: signal.Signals) -> None:
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def stop_all(trainings: Sequence[Training]) -> None:
    """End those that run: all are told before any is waited for, and killed where they take too long, or somebody can't wait (Ctrl-C)."""
    running = [training for training in trainings if training.running]
    members = [process for training in running for process in training.processes]
    try:
        for training in running:
            training.ask_to_end()
        psutil.wait_procs(members, timeout=STOP_LIMIT)
    finally:
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for training in running:
            training.wait()


def finished(path: Path) -> Recorded | None:
    """The run of an earlier try in ``path``, where it completed; a table that is made again goes on after those it has."""
    if not (path / SUMMARY).is_file():
        return None
    with contextlib.suppress(json.JSONDecodeError, UserError):
        run = Recorded(path)
        return run if run.summary.get("state") == "completed" else None
    return None
