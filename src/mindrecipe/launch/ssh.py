"""launch=ssh: `train` on several hosts, started from one through ssh, and ended with it.

What runs on a host is tied to this process by the standard input of ssh: when it closes, however this process ended, the remote
`train` gets SIGTERM (its ranks save and leave). A word on it (INT, TERM) is passed on as that signal.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.launch.signals import StopSignals, exit_code
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.view.base import View

_POLL = 0.2
_OPTIONS = ("-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
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

    A host that fails ends the others: each tells them through the shared run directory, or msrun's heartbeat does.
    """
    if shutil.which("ssh") is None:
        raise UserError("ssh is not on PATH", mend="launch=auto on every host, with launch.node_rank")
    processes = [
        subprocess.Popen(
            job.line(node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            start_new_session=True,
        )
        for node in range(len(job.hosts))
    ]  # fmt: skip
    readers = [
        threading.Thread(target=_pass_on, args=(process, job.hosts[node] if node else "", view)) for node, process in enumerate(processes)
    ]
    for reader in readers:
        reader.start()
    with StopSignals() as signals:
        told, deadline = 0, float("inf")
        while any(process.poll() is None for process in processes):
            if len(signals.received) > told:
                told = len(signals.received)
                word = "INT" if exit_code(signals.received[-1]) == 130 else "TERM"
                deadline = time.monotonic() + job.grace
                for process in processes:
                    _say(process, word)
            if time.monotonic() > deadline:
                for process in processes:
                    process.kill()
            time.sleep(_POLL)
    for reader in readers:
        reader.join()
    return _outcome(job, [process.returncode for process in processes], signals)


def _pass_on(process: subprocess.Popen[str], host: str, view: View) -> None:
    assert process.stdout is not None, "a pipe"
    for line in process.stdout:
        view.say(f"{host}: {line.rstrip()}" if host else line.rstrip())


def _say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None, "a pipe"
    try:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    except BrokenPipeError:  # it has ended
        return


def _outcome(job: SshJob, codes: list[int], signals: StopSignals) -> Outcome:
    if signals.received:
        return Outcome(state="interrupted", exit_code=exit_code(signals.received[0]))
    if not any(codes):
        return Outcome(state="completed", exit_code=EXIT_OK)
    node, code = next((node, code) for node, code in enumerate(codes) if code)
    told = RankError(rank=None, type="Failed", message=f"{job.hosts[node]}: exit code {code}", log=job.hosts[node], time=time.time())
    return Outcome(state="failed", exit_code=code if code > 0 else 1, errors=(told,))
