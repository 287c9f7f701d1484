"""launch=ssh: `train` on several hosts, started from one through ssh, and ended with it.

What runs on a host is tied to this process by the standard input of ssh: when it closes, however this process ended, the remote
`train` gets SIGTERM (its ranks save and leave). A word on it (INT, TERM) is passed on as that signal.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.errors import EXIT_FAILED, EXIT_OK, UserError
from mindrecipe.launch.signals import StopSignals, exit_code
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.view.base import View

_POLL = 0.2
_SETTLE = 20.0
"""Seconds that the other hosts have to end by themselves once one has failed, and to say why."""
_LAST_LINES, _LAST_WORDS = 12, 1.0
_MEANINGS = {
    127: ": a program is missing there",
    137: ": killed there by SIGKILL",
    255: ": ssh did not reach it, or lost it",
}
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
_REMOTE = """cd {folder} || exit 2
exec 3<&0
{command} </dev/null 3<&- & pid=$!
{{ while read -r word <&3; do kill -"$word" $pid 2>/dev/null; done; kill -TERM $pid 2>/dev/null; }} & watch=$!
wait $pid; code=$?
kill $watch 2>/dev/null
exit $code"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshJob:
    """``command`` is `train` and its words for a node; the node's rank is added to it."""

    hosts: tuple[str, ...]
    folder: Path
    command: tuple[str, ...]
    grace: float

    def line(self, node: int) -> list[str]:
        """The command line that starts host ``node``."""
        command = shlex.join([*self.command, f"launch.node_rank={node}"])
        return ["ssh", *_OPTIONS, self.hosts[node], _REMOTE.format(folder=shlex.quote(str(self.folder)), command=command)]


def run(job: SshJob, view: View) -> Outcome:
    """Start all hosts, pass on what they print (others than the first under their name), and wait for all of them.

    A host that fails is named at once, with its last lines. The others learn of it by themselves (through the shared run directory, or by
    msrun's heartbeats) if their ranks have met; those that are left after a while are stopped.
    """
    if shutil.which("ssh") is None:
        raise UserError("ssh is not on PATH", mend="launch=auto on every host, with launch.node_rank")
    hosts = [_Host(job, node, view) for node in range(len(job.hosts))]
    failed: list[_Host] = []
    with StopSignals() as signals:
        told, ask, deadline = 0, float("inf"), float("inf")
        while any(host.code is None for host in hosts):
            now = time.monotonic()
            if len(signals.received) > told:
                told = len(signals.received)
                word = "INT" if exit_code(signals.received[-1]) == 130 else "TERM"
                ask, deadline = float("inf"), now + job.grace
                for host in hosts:
                    host.say(word)
            for host in hosts:
                if host.code and host not in failed and not signals.received:
                    failed.append(host)
                    host.tell()
                    ask = min(ask, now + _SETTLE)
            if now > ask:
                ask, deadline = float("inf"), now + job.grace
                _stop([host for host in hosts if host.code is None], view)
            if now > deadline:
                for host in hosts:
                    host.process.kill()
            time.sleep(_POLL)
    for host in hosts:
        host.reader.join()
    if signals.received:
        return Outcome(state="interrupted", exit_code=exit_code(signals.received[0]))
    failed += [host for host in hosts if host.code and host not in failed]
    return _outcome(hosts, failed[0] if failed else None, view)


def _stop(left: Sequence[_Host], view: View) -> None:
    if left:
        view.say(f"stopping {', '.join(host.name for host in left)}")
    for host in left:
        host.say("TERM")


class _Host:
    """`train` on one host, through ssh; its output goes to ``view`` in a thread."""

    def __init__(self, job: SshJob, node: int, view: View) -> None:
        self.name = job.hosts[node]
        self.process = subprocess.Popen(
            job.line(node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            start_new_session=True,
        )  # fmt: skip
        self._prefix = f"{self.name}: " if node else ""
        self._view = view
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self.reader = threading.Thread(target=self._pass_on)
        self.reader.start()

    @property
    def code(self) -> int | None:
        """Its exit code; None as long as it runs."""
        return self.process.poll()

    @property
    def end(self) -> str:
        """How it ended, in words."""
        code = self.code
        if code is not None and code < 0:
            return f"its ssh was killed by {signal.Signals(-code).name}"
        return f"exit code {code}{_MEANINGS.get(code or 0, '')}"

    def say(self, word: str) -> None:
        """Pass a signal on."""
        assert self.process.stdin is not None, "a pipe"
        try:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it has ended
            return

    def tell(self) -> None:
        """Say that it has failed, with its last words: they may stand far above, among those of other hosts."""
        self.reader.join(_LAST_WORDS)  # what it printed last is read
        self._view.say(f"{self.name} failed: {self.end}")
        for line in self._last:
            self._view.say(f"  {line}")

    def _pass_on(self) -> None:
        assert self.process.stdout is not None, "a pipe"
        for line in self.process.stdout:
            self._last.append(line.rstrip())
            self._view.say(f"{self._prefix}{line.rstrip()}")


def _outcome(hosts: list[_Host], failed: _Host | None, view: View) -> Outcome:
    """By the first host that failed: those that ended after it may only have followed, or were stopped."""
    if failed is None:
        return Outcome(state="completed", exit_code=EXIT_OK)
    others = "; ".join(f"{host.name}: {host.end}" for host in hosts if host is not failed)
    view.say(f"failed: {failed.name}: {failed.end}{f' (then {others})' if others else ''}")
    told = RankError(rank=None, type="Failed", message=f"{failed.name}: {failed.end}", log=failed.name, time=time.time())
    code = failed.code or EXIT_FAILED
    return Outcome(state="failed", exit_code=code if code > 0 else EXIT_FAILED, errors=(told,))
