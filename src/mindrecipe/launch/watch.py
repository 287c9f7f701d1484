"""What the ranks write while they run, read as it arrives: steps from metrics.jsonl, phases and errors from the events files."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from mindrecipe.launch.plan import LOOK_ELSEWHERE_EVERY, LaunchPlan
from mindrecipe.measure.record import Event, StepRecord, event_from_line, step_from_line
from mindrecipe.measure.tail import LineTail

_AFTER = ("alarm", "save", "checkpoint", "evaluate", "done", "stopped", "error")


@dataclass(slots=True)
class News:
    """What arrived since the last look. ``unreadable`` are complete lines that are no record."""

    steps: list[StepRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def in_order(self) -> Iterator[StepRecord | Event]:
        """Steps and events as they came to pass, as far as two files that are read one after the other can tell.

        What leads up to training comes before the steps, a checkpoint after its step, what follows training after all steps.
        """
        steps = deque(self.steps)
        for event in sorted(self.events, key=lambda item: (item.phase in _AFTER, item.time)):
            if event.phase in _AFTER:
                last = event.detail.get("step") if event.phase in ("alarm", "save", "checkpoint") else None
                if last is not None and event.phase == "save":
                    last -= 1  # a step is recorded when its checkpoint has been written
                while steps and (last is None or steps[0].step <= last):
                    yield steps.popleft()
            yield event
        yield from steps


class Watch:
    """Follows this host's ranks; the first host also those of others, whose files it sees where the run directory is shared."""

    def __init__(self, plan: LaunchPlan) -> None:
        local = plan.local_ranks
        remote = [rank for rank in range(plan.ranks) if rank not in local] if plan.node == 0 else []
        self._metrics = LineTail(plan.files.metrics, from_end=True)
        self._local = [LineTail(plan.files.events(rank), from_end=True) for rank in local]
        self._remote = [LineTail(plan.files.events(rank), from_end=True) for rank in remote]
        self._looks = 0

    def look(self, *, everywhere: bool = False) -> News:
        """Read what is new; ``everywhere`` looks at other hosts' ranks too, whether or not it is their turn."""
        news = News()
        for tail in self._local:
            self._read_events(tail, news)
        self._looks += 1
        if everywhere or self._looks % LOOK_ELSEWHERE_EVERY == 0:
            for tail in self._remote:
                self._read_events(tail, news)
        for line in self._metrics.read():
            try:
                news.steps.append(step_from_line(line))
            except (json.JSONDecodeError, TypeError, ValueError):
                news.unreadable.append(f"{self._metrics.path.name}: {line[:120]}")
        return news

    @staticmethod
    def _read_events(tail: LineTail, news: News) -> None:
        for line in tail.read():
            try:
                news.events.append(event_from_line(line))
            except (json.JSONDecodeError, TypeError):
                news.unreadable.append(f"{tail.path.name}: {line[:120]}")
