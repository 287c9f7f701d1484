"""SIGTERM while training: save at the next step boundary and leave, so that nothing is lost to a scheduler's notice."""

from __future__ import annotations

import signal
from types import FrameType

EXIT_STOPPED = 128 + signal.SIGTERM


class StopRequest:
    """Between ``arm`` and ``disarm`` SIGTERM only sets ``asked``; before and after it ends the process at once (guard.py).

    Before the first step there is nothing to save, and a graph that compiles would not let the handler in. Disarmed is a run that trained
    to its end and whose last checkpoint is finished: one that leaves early leaves by itself, however often it is asked.

    ``agreed``: the ranks have agreed on it after a step, which is their last. One of them may be asked once more, or after its last step:
    what all ranks have to do together never follows ``asked``.
    """

    def __init__(self) -> None:
        self.asked = False
        self.agreed = False

    def arm(self) -> None:
        """From now on wait for the step's end (at SIGINT too: mindspore's data pipeline makes a SIGTERM of it)."""
        signal.signal(signal.SIGTERM, self._ask)

    @staticmethod
    def disarm() -> None:
        """From now on end at once."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
