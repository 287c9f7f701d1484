"""Causes register here; :func:`diagnose` asks all of them and puts the most costly first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mindrecipe.judge.recorded import Recorded

#: steps below which nothing is said of speed or of the course of the loss
LEAST_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One cause. ``cost`` is the share (0 to 1) of the run's time that it takes; 1 where the run is lost to it.

    ``evidence`` are figures and the file they stand in, ``threshold`` what they are held against, ``mend`` what to try: overrides that
    can be pasted and change something, or prose (words.py; tests/judge/test_remedies.py holds every cause to it).
    """

    cause: str
    cost: float
    what: str
    evidence: str
    threshold: str
    mend: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


Cause = Callable[[Recorded], Iterator[Diagnosis]]
_causes: dict[str, Cause] = {}


def cause(function: Cause) -> Cause:
    """Register a cause under the function's name."""
    _causes[function.__name__] = function
    return function


def causes() -> dict[str, Cause]:
    """All that are known."""
    return dict(_causes)


def diagnose(run: Recorded) -> list[Diagnosis]:
    """What holds ``run`` back, most costly first; empty for a healthy run."""
    found = [diagnosis for ask in _causes.values() for diagnosis in ask(run)]
    return sorted(found, key=lambda diagnosis: -diagnosis.cost)
