"""Where a run stands, gathered from what its ranks report: the state behind every view, without any drawing."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from mindrecipe.measure.record import PHASES, Event, StepRecord

LABELS = {
    "start": "starting the ranks",
    "import": "importing mindspore and mindformers",
    "build": "building the model and the data pipeline",
    "compile": "compiling the graph",
    "train": "training",
    "evaluate": "evaluating held-out text",
    "done": "finishing",
    "stopped": "leaving",
    "error": "failing",
}
RECENT = 20


class Curve:
    """A series of any length kept in at most ``capacity`` means of equally many neighbours."""

    def __init__(self, capacity: int = 512) -> None:
        self._capacity = capacity
        self._share = 1
        self._means: list[float] = []
        self._open: list[float] = []

    def add(self, value: float) -> None:
        """Append one value."""
        self._open.append(value)
        if len(self._open) < self._share:
            return
        self._means.append(sum(self._open) / len(self._open))
        self._open.clear()
        if len(self._means) >= self._capacity:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(left + right) / 2 for left, right in pairs]
            self._share *= 2

    def values(self) -> list[float]:
        """The means, the unfinished last one included."""
        return self._means + ([sum(self._open) / len(self._open)] if self._open else [])


class Progress:
    """Phases of ``ranks`` ranks, steps done, recent speed, time left. ``clock`` is seconds since the epoch, as events are stamped."""

    def __init__(self, total_steps: int | None, ranks: int = 1, clock: Callable[[], float] = time.time) -> None:
        self.total_steps = total_steps
        self.ranks = ranks
        self.clock = clock
        self.started = clock()
        self.first: StepRecord | None = None
        self.last: StepRecord | None = None
        self.curve = Curve()
        self.overflows = 0
        self.peak_memory: int | None = None
        self.saved: int | None = None
        self.recent: deque[StepRecord] = deque(maxlen=RECENT)
        self._phases: dict[int, Event] = {}

    def on_event(self, event: Event) -> None:
        """A rank entered a phase, or saved a checkpoint while it trains."""
        if event.phase in ("save", "alarm"):
            return
        if event.phase == "checkpoint":
            self.saved = max(self.saved or 0, int(event.detail.get("step", 0)))
        elif (known := self._phases.get(event.rank)) is None or known.phase != event.phase:  # an evaluation says that it gets on
            self._phases[event.rank] = event

    def on_step(self, record: StepRecord) -> None:
        """A step has ended."""
        if self.first is None:
            self.first = record
        elif not (record.profiled or record.warm_up):  # nor does it, as the first step, which compiles, say anything of the speed
            self.recent.append(record)
        self.last = record
        self.curve.add(record.loss)
        self.overflows += record.overflow
        if record.memory_bytes is not None:
            self.peak_memory = max(self.peak_memory or 0, record.memory_bytes)
        for rank, event in self._phases.items():
            if event.phase == "compile":  # a step has ended: the graphs of all ranks are compiled
                self._phases[rank] = replace(event, phase="train", time=self.clock())

    @property
    def elapsed(self) -> float:
        """Seconds since the launch."""
        return self.clock() - self.started

    @property
    def phase(self) -> str:
        """The phase of the rank that is least far: all others wait for it."""
        if len(self._phases) < self.ranks:
            return "start"
        return min(self._phases.values(), key=lambda event: (PHASES.index(event.phase), event.rank)).phase

    @property
    def phase_label(self) -> str:
        """The phase in words."""
        return LABELS[self.phase]

    @property
    def phase_elapsed(self) -> float:
        """Seconds since the slowest rank entered its phase."""
        entered = [event.time for event in self._phases.values() if event.phase == self.phase]
        return self.clock() - max(entered, default=self.started)

    @property
    def step_time(self) -> float | None:
        """Mean seconds of a recent step, everything included; the first step counts only until there is another."""
        records = self.recent or ([self.last] if self.last else [])
        return statistics.fmean(record.step_time for record in records) if records else None

    @property
    def tokens_per_s(self) -> float | None:
        """Median of the recent steps."""
        records = self.recent or ([self.last] if self.last else [])
        return statistics.median(record.tokens_per_s for record in records) if records else None

    @property
    def share(self) -> float | None:
        """Steps done of all steps, 0..1; None where the number of steps is not known."""
        if not self.total_steps or self.last is None:
            return None
        return min(1.0, self.last.step / self.total_steps)

    @property
    def eta(self) -> float | None:
        """Seconds of training that are left, at the recent pace; None until there is a pace, since the first step compiles."""
        if self.total_steps is None or self.last is None or not self.recent or self.step_time is None:
            return None
        return max(0, self.total_steps - self.last.step) * self.step_time
