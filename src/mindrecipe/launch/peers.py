"""How hosts that share the run directory learn of each other, through files in RUN/hosts.

    here.node_1.json     host 1 works here; the file's time goes on as long as its launcher lives
    end_2.node_1.json    host 1's second attempt has ended, and how: none of its ranks is left
    next_2.json          by the first host: whether a third attempt follows

Each is written in one piece. Without a shared directory msrun's heartbeats tell of a failure, after half a minute, and nothing more.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mindrecipe.errors import EXIT_FAILED
from mindrecipe.launch.plan import LOOK_ELSEWHERE_EVERY, LaunchPlan
from mindrecipe.measure.history import set_aside
from mindrecipe.measure.outcome import Outcome, RankError

BEAT = 10.0
"""Seconds between two signs of life."""
FOLDER = "hosts"
STOPPED = "Stopped"
"""The type of the error that another host's end, which was no failure, is to this one."""
_PASSES = (errno.ESTALE, errno.EIO, errno.ENOENT)
"""A file that another host replaces while this one reads it, or that a network disk can't show just now: the next look tells."""
_ERROR = ("rank", "type", "message", "log", "time", "step")


def here_of(folder: Path, node: int) -> Path:
    """The file whose time goes on as long as the launcher of ``node`` lives, in the ``folder`` of a run directory."""
    return folder / f"here.node_{node}.json"


class Peers:
    """This host's side of it, as a context of the whole launch; of one host's, it does nothing.

    ``attempt`` is the number of the one that runs or has ended last. What an earlier launch of the same directory left is set aside.
    """

    def __init__(self, plan: LaunchPlan, tell: Callable[[str], None] = lambda _: None) -> None:
        """``tell`` hears, once, of a sign of life that could not be given; from a thread of its own."""
        self.attempt = 1
        self._tell = tell
        self.others = range(1, plan.nodes) if plan.node == 0 else range(1)
        self._node = plan.node
        self._several = plan.nodes > 1
        self._restarts = plan.restarts.max_restarts > 0
        self._folder = plan.run_dir / FOLDER
        self._looks = 0
        self._over = False
        self._leaves = threading.Event()
        self._beat = threading.Thread(target=self._live, name="beat", daemon=True)

    def __enter__(self) -> Peers:
        if self._several:
            if self._node == 0 and self._here(0).exists():
                set_aside(self._folder)
            self._come()
            self._beat.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._several:
            return
        self._leaves.set()
        self._beat.join()
        if self._node == 0 and not self._over:  # a fault of this launcher
            told = RankError(rank=None, type=type(error).__name__, message=str(error), log=str(self._folder), time=time.time())
            if not self._end(0).exists():
                self.ended(Outcome(state="failed", exit_code=EXIT_FAILED, errors=(told,)))
            self.over(f"host 0 ended: {told.first_line}")

    def stopped(self) -> RankError | None:
        """The error to report when another host has stopped short of its work: its first error as our cause, else that it was stopped.

        None as long as none has. The first host looks at all others, they at the first: whichever stops, all stop.
        """
        self._looks += 1
        if self._looks % LOOK_ELSEWHERE_EVERY:
            return None
        for node in self.others if self._several else ():
            end = self.end(node)
            if end is None or end["state"] == "completed":
                continue
            if end["error"] is not None:
                return RankError(**end["error"])
            path = self._end(node)
            return RankError(rank=None, type=STOPPED, message=f"host {node} was {end['state']}", log=str(path), time=path.stat().st_mtime)
        return None

    def ended(self, outcome: Outcome, attempt: int | None = None) -> None:
        """Say that ``attempt`` (this one) has ended here: none of this host's ranks is left."""
        if self._several:
            cause = outcome.errors[0] if outcome.errors else None
            error = {key: getattr(cause, key) for key in _ERROR} if cause is not None else None
            self._write(self._end(self._node, attempt), {"state": outcome.state, "error": error})

    def end(self, node: int) -> dict[str, Any] | None:
        """How this attempt has ended on host ``node`` (``state``, ``error``); None as long as it runs on there."""
        return self._read(self._end(node))

    def here(self) -> dict[int, dict[str, Any]]:
        """The other hosts that have come (``restarts``: whether their launcher would start again)."""
        read = {node: self._read(self._here(node)) for node in self.others}
        return {node: here for node, here in read.items() if here is not None}

    def sign_of_life(self, node: int) -> int:
        """A number that goes on as long as the launcher of ``node`` lives; 0 before it has come."""
        try:
            return self._here(node).stat().st_mtime_ns
        except OSError as error:
            if error.errno not in _PASSES:
                raise
            return 0

    def next(self, said: Sequence[str]) -> None:
        """Another attempt begins, and the run directory is ready for it: the first host tells those that wait for this."""
        if self._several and self._node == 0:
            self._write(self._next(), {"goes_on": True, "said": "; ".join(said)})
        self.attempt += 1

    def over(self, why: str) -> None:
        """By the first host: no other attempt follows."""
        self._over = True
        if self._several:
            self._write(self._next(), {"goes_on": False, "said": why})

    def told(self) -> dict[str, Any] | None:
        """What the first host said (``goes_on``, ``said``); None as long as it has not."""
        return self._read(self._next())

    def _come(self) -> None:
        self._folder.mkdir(exist_ok=True)
        self._write(self._here(self._node), {"restarts": self._restarts})

    def _live(self) -> None:
        """Whatever one sign of life meets (a full disk, a stale handle, an error of the network's): the next one is tried, as this host
        lives, and the others take silence for its death."""
        told = False
        while not self._leaves.wait(BEAT):
            try:
                self._sign()
            except OSError as error:
                if not told:
                    self._tell(f"warning: no sign of life could be given in {self._folder} ({error.strerror}): it is tried again")
                told = True

    def _sign(self) -> None:
        try:
            os.utime(self._here(self._node))  # no bytes: a full disk takes it too
        except FileNotFoundError:  # the first host came after us, and has set an earlier launch's folder aside
            self._come()

    def _here(self, node: int) -> Path:
        return here_of(self._folder, node)

    def _end(self, node: int, attempt: int | None = None) -> Path:
        return self._folder / f"end_{attempt or self.attempt}.node_{node}.json"

    def _next(self) -> Path:
        return self._folder / f"next_{self.attempt}.json"

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            if error.errno not in _PASSES:
                raise
            return None
        return found

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
