"""Ctrl-C and its kin, remembered instead of raised: the supervisor looks at them between two polls, so that no clean-up is torn."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """While entered, SIGINT, SIGTERM and SIGHUP only add to ``received``. In a thread other than the main one it catches nothing.

    SIGINT is caught even where it was ignored (a shell script's background job), since whoever sends it means it;
    SIGHUP stays ignored where it was: that is what nohup is for.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in CAUGHT:
                previous = signal.getsignal(number)
                if not (number is signal.SIGHUP and previous is signal.SIG_IGN):
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous if previous is not None else signal.SIG_DFL)
        self._previous.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)


def exit_code(number: int) -> int:
    """What a shell expects of a program that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number
