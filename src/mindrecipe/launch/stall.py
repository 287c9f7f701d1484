"""Whether training still gets on: a hang is no new step for many times the median step, once there were steps."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Collection

from mindrecipe.errors import UserError
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.measure.record import Event, StepRecord, read_steps

STALLED = "Stalled"
"""The type of the error."""
_RECENT = 100
_ENOUGH = 3  # steps: the first compiles, the second still fills caches
LONGEST_PAUSE = 30.0
"""Times stall_min, an hour by default, that saving or a stretch of evaluating may take: a slow file system is no hang, a dead one is."""


class StallClock:
    """Fed with what the ranks report; :attr:`stalled_for` is None as long as nothing hangs.

    ``multiple`` of the median step time, at least ``at_least`` seconds, may pass without a step; None: any time. Until there are
    enough steps the median is ``usual``, an earlier attempt's, where it is known, else the shortest step so far. While a rank of
    ``ranks`` saves or evaluates, and after the ``last`` step, LONGEST_PAUSE times ``at_least`` may pass without a word. Starting and
    compiling are no hang, however long they take.
    """

    def __init__(
        self,
        multiple: float | None,
        at_least: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        ranks: Collection[int] = (0,),
        usual: float | None = None,
        last: int | None = None,
    ) -> None:
        self._multiple = multiple
        self._at_least = at_least
        self._clock = clock
        self._ranks = frozenset(ranks)
        self._usual = usual
        self._last = last
        self._times: deque[float] = deque(maxlen=_RECENT)
        self._since = clock()
        self._busy: set[int] = set()
        self._ended: set[int] = set()
        self._over = False

    def step(self, record: StepRecord) -> None:
        """A step has ended: no rank is behind it any more."""
        self._times.append(record.step_time)
        self._since = self._clock()
        self._busy.clear()
        self._over = self._last is not None and record.step >= self._last

    def event(self, event: Event) -> None:
        """A rank saves, evaluates or is done; others may still train, and hang."""
        if event.phase in ("save", "evaluate"):
            self._busy.add(event.rank)
        elif event.phase in ("checkpoint", "done", "stopped"):
            self._busy.discard(event.rank)
            if event.phase != "checkpoint":
                self._ended.add(event.rank)
        else:
            return
        self._since = self._clock()

    @property
    def limit(self) -> float | None:
        """Seconds that may pass without a step, or a word of what is none; None: any time."""
        if self._multiple is None or self._ended >= self._ranks or not (self._times or self._pauses):
            return None
        ordinary = max(self._at_least, self._multiple * self._typical) if self._times else self._at_least
        return max(ordinary, LONGEST_PAUSE * self._at_least) if self._pauses else ordinary

    @property
    def allows(self) -> str:
        """The limit in words."""
        if self._pauses:
            return f"saving and evaluating may take ({self.limit:.0f} s: {LONGEST_PAUSE:g} times launch.stall_min)"
        return f"launch.stall_timeout allows ({self.limit:.0f} s)"

    @property
    def _pauses(self) -> bool:
        return bool(self._busy) or self._over

    @property
    def _typical(self) -> float:
        if len(self._times) >= _ENOUGH:
            return statistics.median(self._times)
        return min(self._times) if self._usual is None else self._usual

    @property
    def stalled_for(self) -> float | None:
        """Seconds without a step where they are too many."""
        passed, limit = self._clock() - self._since, self.limit
        return passed if limit is not None and passed > limit else None


def clock_of(plan: LaunchPlan) -> StallClock:
    """For the attempt that is about to start; call it once the run directory is ready for it."""
    return StallClock(plan.stall_timeout, plan.stall_min, ranks=plan.local_ranks, usual=usual_step(plan), last=plan.total_steps)


def usual_step(plan: LaunchPlan) -> float | None:
    """Seconds of the median step of the newest earlier attempt that made enough of them; None where none did.

    What it trained beyond its last checkpoint was set aside (measure/history.py): metrics.1.jsonl, metrics.2.jsonl, ...
    """
    metrics = plan.files.metrics
    aside = sorted(metrics.parent.glob(f"{metrics.stem}.*{metrics.suffix}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in (*aside, metrics):
        try:
            times = deque((record.step_time for record in read_steps(path)), maxlen=_RECENT)
        except (UserError, OSError):
            continue  # a damaged file is told by who needs what is in it; here it would only make the clock patient sooner
        if len(times) >= _ENOUGH:
            return statistics.median(times)
    return None
