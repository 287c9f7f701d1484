"""How the command line speaks: errors to stderr in one form, findings, and exit codes for what went wrong."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from mindrecipe.cli.output import readers_are_outlived
from mindrecipe.config.findings import Finding
from mindrecipe.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, UserError, UserErrors
from mindrecipe.runfiles import HANDED_OVER

#: what the flag --strict stands for
STRICT = "rules.strict=true"
SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "advice": "bold cyan", "silenced": "dim"}


def stderr() -> Console:
    """A console for messages: never wraps, no colours where stderr is not a terminal."""
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def print_fault(fault: UserError) -> None:
    """One or several faults of the user, each: what, where it was written, the mend."""
    console = stderr()
    for each in fault.faults if isinstance(fault, UserErrors) else [fault]:
        _print_entry(console, each.severity, each.what, None, each.where, each.mend, each.rule)


def print_finding(console: Console, finding: Finding) -> None:
    """One finding of the rules."""
    mend = finding.mend if finding.reason is None else None
    _print_entry(console, finding.severity, finding.what, finding.why, finding.where, mend, finding.rule, finding.reason)


def _print_entry(
    console: Console,
    severity: str,
    what: str,
    why: str | None,
    where: str | None,
    mend: str | None,
    rule: str | None = None,
    reason: str | None = None,
) -> None:
    head = Text.assemble((f"{severity}: ", SEVERITY_STYLES[severity]), what, (f"  [{rule}]" if rule else "", "dim"))
    console.print(head)
    for name, text in (("why", why), ("at", where), ("mend", mend), ("but", reason)):
        if text:
            console.print(Text.assemble((f"  {name + ':':<6}", "dim"), text))


def run_guarded(work: Callable[[], int]) -> NoReturn:
    """Run ``work`` and leave with its exit code. A fault of the user is told without a traceback, one of ours keeps it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the letter is no reason to fail
    try:
        with _stop_signals():
            code = work()
        sys.stdout.flush()
    except Stopped as stopped:
        stderr().print(f"stopped by {signal.Signals(stopped.number).name}")
        code = 128 + stopped.number
    except UserError as fault:
        print_fault(fault)
        code = fault.exit_code
    except KeyboardInterrupt:
        stderr().print("interrupted")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        if readers_are_outlived():
            raise  # a fault of ours, and never a success
        # the reader of our pipe left (`mindrecipe ls | head`): not a fault, and nobody to tell
        _silence()
        code = EXIT_OK
    except OSError as fault:
        if fault.errno != errno.ENOSPC:
            raise
        print_fault(UserError(f"can't write: {fault.strerror}", mend="make room on the disk"))
        _silence()
        code = EXIT_USAGE
    sys.exit(code)


class Stopped(BaseException):
    """SIGTERM or SIGHUP came, while nothing that handles it itself was running: everything that is open is closed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _stop_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise :class:`Stopped`, as Ctrl-C raises KeyboardInterrupt; SIGHUP that nohup ignores stays ignored.

    On a host of launch=ssh Ctrl-C does so too: it is passed on to us as SIGINT, which a shell lets its background jobs ignore.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, previous in before.items():
        if previous is signal.SIG_DFL:
            signal.signal(number, stop)
    if HANDED_OVER in os.environ and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _silence() -> None:
    """Let standard output lead nowhere: Python flushes it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
