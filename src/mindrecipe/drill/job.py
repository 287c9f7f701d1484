"""One `train` under drill: started as a shell would, looked at from outside, and started again where its run directories stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from mindrecipe.checkpoints.find import Checkpoint, find, trusted
from mindrecipe.config.overrides import plain
from mindrecipe.drill.small_disk import SmallDisk
from mindrecipe.errors import EXIT_OK
from mindrecipe.launch.processes import die_with
from mindrecipe.measure.artifacts import resumed_step
from mindrecipe.measure.record import Event, StepRecord, event_from_line, read_steps
from mindrecipe.runfiles import LOCK, RunFiles

_TRAIN = "from mindrecipe.cli.train import main; main()"
_POLL = 0.05


class Stuck(Exception):
    """Something that had to happen did not in time."""


class Late(Exception):
    """The run was over before it could be broken."""


class Job:
    """``train words run.dir=folder/name checkpoint.resume=auto``; ``patience`` seconds for anything to happen; ``disk``: its own one."""

    def __init__(self, words: list[str], base: Path, patience: float, disk: SmallDisk | None = None) -> None:
        self.base = base
        self.disk = disk
        self._words = [*words, f"run.dir={plain(str(base))}", "checkpoint.resume=auto"]
        self.patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> Path:
        """What all its launches have printed."""
        return self.base.with_name(f"{self.base.name}.txt")

    def start(self) -> None:
        """Start the launcher (again)."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _TRAIN, *self._words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - one system call; whatever ends the drill ends its run
                env={**os.environ, "PYTHONSAFEPATH": "1"},
            )

    @property
    def launcher(self) -> psutil.Process:
        """The launcher's process."""
        assert self._process is not None, "started"
        return psutil.Process(self._process.pid)

    def workers(self) -> list[psutil.Process]:
        """The ranks of this host, of the newest run directory (the scheduler of msrun is not among them)."""
        found = []
        for process in self.launcher.children(recursive=True):
            try:
                words, role = process.cmdline(), process.environ().get("MS_ROLE")
            except psutil.Error:
                continue
            if "mindrecipe.worker" in words and role != "MS_SCHED" and not any("msrun" in word for word in words):
                found.append(process)
        return found

    def ended(self) -> int | None:
        """The launcher's exit code, None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait(self) -> int:
        """Its exit code."""
        self.until(lambda: self.ended() is not None, "the end of the run", alive=False)
        return self.ended() or 0

    def kill(self) -> None:
        """End it, whatever it does; its ranks go with it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def until(self, condition: Callable[[], bool], what: str, *, alive: bool = True, poll: float = _POLL) -> None:
        """Wait for ``condition``, looked at every ``poll`` seconds. Stuck where it does not come, or (``alive``) the launcher fails
        before it does; Late where it is done.
        """
        deadline = time.monotonic() + self.patience
        while not condition():
            if alive and self.ended() is not None and not condition():
                if self.ended() == EXIT_OK:
                    raise Late
                raise Stuck(f"{what}: the launcher ended with exit code {self.ended()} (see {self.output})")
            if time.monotonic() > deadline:
                raise Stuck(f"{what} did not come within {self.patience:g} s (see {self.output})")
            time.sleep(poll)

    def runs(self) -> list[RunFiles]:
        """Its run directories, in the order they were made: <base>, <base>-2, ..."""
        own = re.compile(rf"{re.escape(self.base.name)}(-\d+)?")  # as execute.py calls them
        return [run for run in self._with_the_dead() if own.fullmatch(run.path.name)]

    def _with_the_dead(self) -> list[RunFiles]:
        """The same, and those that were set aside because they died before their first checkpoint: <base>.died."""
        paths = [path for path in self.base.parent.glob(f"{self.base.name}*") if (path / LOCK).exists()]
        return [RunFiles(path=path) for path in sorted(paths, key=lambda path: (len(path.name), path.name))]

    def last_step(self) -> int:
        """The newest step of the newest run; what it resumed where it has made none."""
        runs = self.runs()
        if not runs:
            return 0
        return max((record.step for record in read_steps(runs[-1].metrics)), default=resumed_step(runs[-1].path))

    def resumed(self) -> int:
        """The step that the newest run went on from."""
        return resumed_step(self.runs()[-1].path)

    def events(self, phase: str) -> Iterator[Event]:
        """Events of rank 0 so far, of its runs."""
        for run in self.runs():
            lines = run.events(0).read_text(encoding="utf-8").splitlines(keepends=True) if run.events(0).exists() else []
            yield from (event for event in map(event_from_line, (line for line in lines if line.endswith("\n"))) if event.phase == phase)

    def saves(self) -> int:
        """How many checkpoints rank 0 has begun to write, in all its runs."""
        return sum(1 for _ in self.events("save"))

    def begun_after(self, moment: float) -> float | None:
        """When training began again after ``moment`` (both in seconds since the epoch): its first step there was made."""
        return next((event.time for event in self.events("train") if event.time > moment), None)

    @property
    def checkpoint_folder(self) -> Path:
        """Where the newest run writes its checkpoints."""
        return self.runs()[-1].checkpoints

    def checkpoints(self) -> list[Checkpoint]:
        """The whole checkpoints of all its runs, newest last: its bytes are those that were written."""
        return [checkpoint for run in self.runs() for checkpoint in trusted(find(run.path)).complete]

    def attempts(self) -> list[dict[str, Any]]:
        """attempts.jsonl of all its runs."""
        files = [run.attempts for run in self._with_the_dead() if run.attempts.exists()]
        return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]

    def trained(self) -> list[StepRecord]:
        """Every step that any launch has recorded, those that were trained again included."""
        files = [path for run in self._with_the_dead() for path in sorted(run.path.glob("metrics*.jsonl"))]
        return [record for path in files for record in read_steps(path)]
