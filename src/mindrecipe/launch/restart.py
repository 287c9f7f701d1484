"""Attempts at a run: what is recorded of them, and whether a failed one is worth another, from what those so far ended with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mindrecipe.measure.outcome import Outcome, RankError

LONGEST_BACKOFF = 600.0
#: ends that come again however often one tries: wrong settings, no room, nothing to train, a watcher's order
_HOPELESS = {
    "UserError": "a restart can't mend what was asked for",
    "UserErrors": "a restart can't mend what was asked for",
    "DiskFull": "a restart makes no room on the disk",
    "NoSteps": "there was nothing to train",
    "Stopped": "a watcher or another host stopped it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """``max_restarts`` within ``window`` seconds (None: in all); the first waits ``backoff`` seconds, each further one twice as long.
    Errors of the types in ``final`` are not tried again."""

    max_restarts: int = 0
    window: float | None = None
    backoff: float = 5.0
    final: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One line of attempts.jsonl. ``from_step`` is what it resumed, ``last_step`` what it reached; times are seconds since the epoch.

    As long as it runs, and for good where its launcher was killed, ``state`` is "running", ``ended`` and ``exit_code`` are null.
    """

    number: int
    started: float
    ended: float | None
    state: str
    exit_code: int | None
    from_step: int
    last_step: int
    error: dict[str, Any] | None = None
    decision: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Records:
    """attempts.jsonl: one line an attempt, written when it begins and again when it has ended; those of earlier launches stay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = path.read_text(encoding="utf-8") if path.exists() else ""
        self._lines: dict[int, str] = {}

    def write(self, attempt: Attempt) -> None:
        """In one piece: a reader meets the line of before or this one."""
        self._lines[attempt.number] = f"{json.dumps(attempt.as_dict())}\n"
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            new.write_text(self._before + "".join(self._lines.values()), encoding="utf-8")
            os.replace(new, self._path)
        except OSError:  # a full disk
            new.unlink(missing_ok=True)
            raise


@dataclass(frozen=True, slots=True)
class Decision:
    """``wait`` seconds before another attempt, None: no other; ``why`` in words; ``before``: only checkpoints of earlier steps will do."""

    wait: float | None
    why: str
    before: int | None = None


def error_of(outcome: Outcome) -> dict[str, Any] | None:
    """The cause, as an attempt keeps it."""
    if not outcome.errors:
        return None
    cause: RankError = outcome.errors[0]
    return {"rank": cause.rank, "type": cause.type, "message": cause.message, "step": cause.step}


def decide(policy: RestartPolicy, attempts: Sequence[Attempt], now: float | None = None) -> Decision:
    """What follows the last of ``attempts``."""
    last = attempts[-1]
    if last.state not in ("failed", "diverged"):
        return Decision(None, "")
    error = last.error or {}
    if error.get("type") in policy.final:
        return Decision(None, "not started again: its watcher says stop")
    if (why := _hopeless(attempts)) is not None:
        return Decision(None, f"not started again: {why}")
    now = time.time() if now is None else now
    restarts = [attempt.started for attempt in attempts[1:] if policy.window is None or attempt.started > now - policy.window]
    if len(restarts) >= policy.max_restarts:
        if policy.max_restarts == 0:
            return Decision(None, "")
        within = f" within {policy.window:g} s" if policy.window else ""
        return Decision(None, f"not started again: launch.max_restarts={policy.max_restarts} is used up{within}")
    idle = next((count for count, attempt in enumerate(reversed(attempts)) if attempt.last_step > attempt.from_step), len(attempts))
    wait = min(LONGEST_BACKOFF, policy.backoff * 2.0**idle)
    what = f"restart {len(attempts)} of {policy.max_restarts} in {wait:g} s"
    if _came_with_its_weights(attempts):
        why = f"from before step {last.from_step}: its checkpoint may hold what step {error['step']} shows"
        return Decision(wait, f"{what}, {why}", last.from_step)
    return Decision(wait, what, error.get("step") if _rolls_back(last) else None)


def hopeless(kind: str | None) -> str | None:
    """Why no restart can cure an error of this type; None where one may."""
    return None if kind is None else _HOPELESS.get(kind)


def _hopeless(attempts: Sequence[Attempt]) -> str | None:
    last, error = attempts[-1], attempts[-1].error or {}
    if (why := hopeless(error.get("type"))) is not None:
        return why
    if _same_before(attempts) and not _came_with_its_weights(attempts):
        return f"the same end at the same step {error['step']} as before: it is in the data or the settings"
    earlier = [attempt.error for attempt in attempts[:-1] if attempt.error is not None]
    same = [each for each in earlier if (each["type"], each["message"]) == (error.get("type"), error.get("message"))]
    if same and last.last_step == last.from_step and attempts[-2].last_step == attempts[-2].from_step:
        return "twice the same error before a single step"
    return None


def _rolls_back(attempt: Attempt) -> bool:
    """Whether what it ended with asks for a checkpoint of before that step."""
    return attempt.state == "diverged" or (attempt.error or {}).get("type") == "RollBack"


def _same_before(attempts: Sequence[Attempt]) -> int:
    """How many before the last have ended as it did, at the same step."""
    error = attempts[-1].error or {}
    earlier = [attempt.error for attempt in attempts[:-1] if attempt.error is not None]
    if error.get("step") is None:
        return 0
    return sum((each["type"], each["step"]) == (error["type"], error["step"]) for each in earlier)


def _came_with_its_weights(attempts: Sequence[Attempt]) -> bool:
    """The last began just before the step that it ended at, as another did: no loss has yet judged the weights that it began with.

    The loss of a step is that of the weights before its update. Once: from an older checkpoint the same end is of the data.
    """
    last = attempts[-1]
    step = (last.error or {}).get("step")
    return _rolls_back(last) and 0 < last.from_step == (step or 0) - 1 and _same_before(attempts) == 1
