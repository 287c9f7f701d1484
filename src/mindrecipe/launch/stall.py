"""Whether training still gets on: a hang is no new step for many times the median step, once there were steps."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

from mindrecipe.measure.record import Event, StepRecord

_RECENT = 100
_ENOUGH = 3  # steps: the first compiles, the second still fills caches


class StallClock:
    """Fed with what the ranks report; :attr:`stalled_for` is None as long as nothing hangs.

    ``multiple`` of the median step time, at least ``at_least`` seconds, may pass without a step; None: any time. What is no step is
    no hang: starting, compiling, saving a checkpoint, evaluating.
    """

    def __init__(self, multiple: float | None, at_least: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._multiple = multiple
        self._at_least = at_least
        self._clock = clock
        self._times: deque[float] = deque(maxlen=_RECENT)
        self._since = clock()
        self._paused = False

    def step(self, record: StepRecord) -> None:
        """A step has ended."""
        self._times.append(record.step_time)
        self._since = self._clock()
        self._paused = False

    def event(self, event: Event) -> None:
        """A rank saves, evaluates or is done: the next step, if there is one, starts the clock again."""
        if event.phase in ("save", "checkpoint", "evaluate", "done", "stopped"):
            self._since = self._clock()
            self._paused = event.phase != "checkpoint"

    @property
    def limit(self) -> float | None:
        """Seconds that may pass without a step; None: any time."""
        if self._multiple is None or len(self._times) < _ENOUGH:
            return None
        return max(self._at_least, self._multiple * statistics.median(self._times))

    @property
    def stalled_for(self) -> float | None:
        """Seconds without a step where they are too many."""
        passed, limit = self._clock() - self._since, self.limit
        return passed if limit is not None and not self._paused and passed > limit else None
