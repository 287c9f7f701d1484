"""What every view can be told; the launcher knows no more of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, StepRecord
from mindrecipe.measure.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What is known of a run before it starts. ``ranks`` of the whole job, on ``hosts`` hosts, ``local_ranks`` of them here."""

    title: str
    run_dir: Path
    total_steps: int | None
    ranks: int
    local_ranks: int = 1
    hosts: int = 1
    device: str = ""
    resume_hint: str | None = None

    @property
    def where(self) -> str:
        """ "4 ranks on 2 hosts, Ascend"."""
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        hosts = f" on {self.hosts} hosts" if self.hosts > 1 else ""
        return ranks + hosts + (f", {self.device}" if self.device else "")


class View(Protocol):
    """One run shown to one person.

    The order of calls: ``prepare`` any number of times, ``begin``, then ``event``, ``step``, ``note`` and ``tick`` in any order,
    ``end``, ``close``. ``tick`` is called several times a second and must be cheap; ``close`` gives the terminal back, and may be
    called twice.
    """

    def prepare(self, what: str) -> None:
        """Something before the ranks goes on, for example "building the data set 40 %"."""

    def begin(self, header: Header) -> None:
        """The ranks are being started."""

    def event(self, event: Event) -> None:
        """A rank entered a phase."""

    def step(self, record: StepRecord) -> None:
        """A step has ended."""

    def say(self, line: str) -> None:
        """A line that was asked for, as it is, whatever is shown otherwise."""

    def note(self, text: str) -> None:
        """A line worth reading now."""

    def failure(self, error: RankError) -> None:
        """The first failure, told as soon as it is known, before the other ranks are down."""

    def tick(self) -> None:
        """Time has passed."""

    def end(self, outcome: Outcome, summary: Summary) -> None:
        """The run is over."""

    def close(self) -> None:
        """Give the terminal back."""
