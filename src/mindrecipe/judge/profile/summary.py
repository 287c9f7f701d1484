"""A profile of one rank, summed up: what a terminal, the report and the diagnosis say of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mindrecipe.judge.profile import links, memory, operators
from mindrecipe.judge.profile.files import folders
from mindrecipe.judge.recorded import Recorded

SMALL = 20e-6  # seconds: about what launching a kernel takes a host


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One rank's profile. Empty lists and null are "the profiler writes no such thing here" (level, device).

    ``mean_operator`` seconds; ``small`` the share of executions below 20 us; ``scopes`` shares of the operators' time.
    """

    rank: int
    path: str
    steps: list[operators.Step]
    executions: float
    mean_operator: float | None
    small: float | None
    operators: list[operators.Operator]
    scopes: dict[str, float]
    memory: memory.Memory | None
    communication: links.Shares | None
    links: list[links.Link]

    @property
    def idle(self) -> float | None:
        """Share of the steps in which no operator ran; None without operators."""
        whole = sum(step.seconds for step in self.steps)
        return sum(step.idle * step.seconds for step in self.steps) / whole if whole else None

    @property
    def gap(self) -> float | None:
        """Median seconds between two steps; None of fewer than two."""
        known = [step.gap for step in self.steps if step.gap is not None]
        return statistics.median(known) if known else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        held = {} if self.memory is None else {"fragmentation": self.memory.fragmentation}
        told = asdict(self) | {"idle": self.idle, "gap": self.gap}
        return told | ({"memory": told["memory"] | held} if told["memory"] else {})


def profiled_steps(run: Recorded) -> int:
    """How many steps the run's profile holds; at least one."""
    window = run.config.get("profile") or {}
    first, last = int(window.get("start") or 1), int(window.get("stop") or 0)
    return max(1, sum(first <= record.step <= last for record in run.steps))


def profiles(run: Recorded, only: int | None = None) -> Iterator[Profile]:
    """The profile of each profiled rank (or ``only`` of that one), read when it is asked for: a large job's are gigabytes."""
    steps = profiled_steps(run)
    for rank, folder in folders(run.path).items():
        if only not in (None, rank):
            continue
        ran = operators.read(folder)
        parts = operators.by_step(ran, steps)
        yield Profile(
            rank=rank,
            path=str(folder.relative_to(run.path)),
            steps=operators.steps_of(parts),
            executions=len(ran) / max(1, len(parts)),
            mean_operator=statistics.fmean(each.took for each in ran) if ran else None,
            small=sum(each.took < SMALL for each in ran) / len(ran) if ran else None,
            operators=operators.by_kind(ran, max(1, len(parts))),
            scopes=operators.by_scope(ran),
            memory=memory.read(folder),
            communication=links.shares(folder),
            links=links.links(folder),
        )


def first_profile(run: Recorded) -> Profile | None:
    """That of the first profiled rank; None of a run that was not profiled."""
    return next(profiles(run), None)
