"""What supervision has seen of a launch: all that its ranks reported, and those that ended without a word."""

from __future__ import annotations

from dataclasses import dataclass, field

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, StepRecord


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended, and all that was reported on the way. ``first_step`` is when the first step had ended, seconds since the epoch."""

    outcome: Outcome
    steps: list[StepRecord]
    events: list[Event]
    first_step: float | None


@dataclass(slots=True)
class Seen:
    """All that the ranks have reported."""

    steps: list[StepRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    errors: list[RankError] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    first_step: float | None = None


@dataclass(frozen=True, slots=True)
class Deaths:
    """The first ranks that ended without a word, perhaps all between two looks. ``alive`` is when they still lived; ``told``: ranks that
    had said by then why they fail.
    """

    ranks: set[int]
    alive: float
    noticed: float
    told: frozenset[int | None] = frozenset()
