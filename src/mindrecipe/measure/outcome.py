"""How a run ended: the value that a launch returns, and that the summary keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STATES = ("completed", "interrupted", "failed", "diverged", "dry_run", "frozen")


def who(rank: int | None) -> str:
    """Whom an error is of, in words: see :attr:`RankError.who`."""
    return "the launch" if rank is None else f"rank {rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """What stopped one rank, in its own words.

    ``rank`` is null where no rank is to blame (msrun or its scheduler failed); ``followed`` marks a rank that only failed
    because an earlier one had; ``time`` is seconds since the epoch; ``step`` is the first bad step, where it is known.
    """

    rank: int | None
    type: str
    message: str
    log: str
    time: float
    followed: bool = False
    step: int | None = None
    traceback: str | None = None

    @property
    def who(self) -> str:
        """ "rank 1", or "the launch" where no rank is to blame."""
        return who(self.rank)

    @property
    def first_line(self) -> str:
        """The error as Python would print it, cut to its first line."""
        head = self.message.strip().splitlines()
        return f"{self.type}: {head[0]}" if head else self.type

    def as_dict(self) -> dict[str, Any]:
        """Plain values for summary.json."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a run. ``errors`` are in the order they happened: the first is the cause.

    ``stopped`` are the ranks that were stopped because of it; ``notes`` are things worth knowing that did not change the outcome.
    """

    state: str
    exit_code: int
    errors: tuple[RankError, ...] = ()
    stopped: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"unknown state {self.state!r}, one of {', '.join(STATES)}")
