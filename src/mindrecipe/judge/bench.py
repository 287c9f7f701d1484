"""Two recipes measured in turns, so that what else the machine does strikes both alike.

Both trainings are started, each its own process, and warm up beside each other. Then one runs a few steps while the other is held
(SIGSTOP), and the other way round, in the order A B B A. Only steps that lie wholly inside a turn count. The ratio of two turns of one
pair is free of whatever lasts longer than a pair; how much two processes differ for as long as they live, only other rounds tell
(rounds.py).
"""

from __future__ import annotations

import json
import shlex
import string
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.judge import identity
from mindrecipe.judge.keeping import claimed, set_aside
from mindrecipe.judge.measured import Measured, measure
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.training import Training, stop_all, with_words
from mindrecipe.measure.curves import WARM_UP_STEPS
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.record import StepRecord

_WARM = WARM_UP_STEPS + 3
_POLL, _IDLE = 0.004, 0.02  # seconds
_SPARE = 20  # steps that pass unseen while a side is being held
#: a side that is held takes no step for long, and its ranks give no sign of life: that is no hang, and they are not dead. MindSpore's
#: scheduler gives them up after 30 s by default, which the other side may well take to compile (run); a rank that dies is seen without it
_PATIENT = ("launch.stall_timeout=null", "launch.env.MS_NODE_TIMEOUT=86400")
LEAST_PAIRS = 5


@dataclass(frozen=True, slots=True)
class Benched:
    """Both sides; their ``blocks`` are turns, the i-th of one beside the i-th of the other."""

    a: Measured
    b: Measured

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"a": self.a.as_dict(), "b": self.b.as_dict()}


def rounds(
    a: Sequence[str],
    b: Sequence[str],
    folder: Path,
    *,
    count: int,
    pairs: int,
    steps: int,
    told: Callable[[str], None] = lambda _: None,
) -> list[Benched]:
    """``count`` rounds, each of new processes, below ``folder``. Those that it has of an earlier call are not measured again, unless
    the same words make another configuration or data set by now, or versions are others: that is told. UserError where they are of other
    words, or another process measures there.
    """
    asked = {"a": list(a), "b": list(b), "pairs": pairs, "steps": steps}
    with claimed(folder):
        found = []
        for number in range(1, count + 1):
            made_of = {"a": identity.identity_of(a), "b": identity.identity_of(b)}  # each time: recipes and texts may be edited meanwhile
            kept, runs = folder / f"round{number}.json", folder / f"round{number}"
            raw = _kept(kept, runs, asked, made_of, told)
            if raw is None:
                if count > 1:
                    told(f"round {number} of {count}")
                if runs.exists():  # begun before, and not finished
                    set_aside(runs, "broken")
                measured = Benched(*turns([a, b], runs.absolute(), pairs=pairs, steps=steps, told=told))
                raw = plain({"asked": asked, "made_of": made_of, **measured.as_dict()})
                part = kept.with_suffix(".part")
                part.write_text(json.dumps(raw) + "\n", encoding="utf-8")
                part.rename(kept)
            found.append(Benched(*(Measured.from_dict(raw[side]) for side in "ab")))
    _require_one(folder, found)
    return found


def _require_one(folder: Path, found: Sequence[Benched]) -> None:
    """UserError where a recipe or a text was edited between two rounds of this call; the next one measures anew what is of the old."""
    made = [[(side.identity.config_hash, side.identity.data) for side in (each.a, each.b)] for each in found]
    for number, other in enumerate(made, 1):
        if other != made[0]:
            what = "configuration" if [side[0] for side in other] != [side[0] for side in made[0]] else "data set"
            raise UserError(
                f"in round {number} the words made another {what} than in round 1: it was edited while {folder} was measured",
                mend="the same command again: it measures anew what was of the earlier one",
            )


def _kept(
    kept: Path, runs: Path, asked: dict[str, Any], made_of: dict[str, identity.Identity], told: Callable[[str], None]
) -> dict[str, Any] | None:
    """The round that was measured before; None where there is none, or none of what is measured now: that is set aside."""
    if not kept.is_file():
        return None
    raw: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    if raw["asked"] != asked:
        raise UserError(f"{kept} is of another comparison: {_asked(raw['asked'])}, not {_asked(asked)}", mend="another --output")
    was = raw.get("made_of") or {}
    why = {side: identity.changed(was.get(side), now, raw[side]["identity"]["data"]) for side, now in made_of.items()}
    other = [f"{side.upper()}: {changed}" for side, changed in why.items() if changed is not None]
    if not other:
        return raw
    told(f"{kept} is measured again: {'; '.join(other)}")
    if runs.exists():
        set_aside(runs, "stale")
    set_aside(kept, "stale")
    return None


def turns(
    sides: Sequence[Sequence[str]], folder: Path, *, pairs: int, steps: int, told: Callable[[str], None] = lambda _: None
) -> list[Measured]:
    """Train all ``sides`` below ``folder`` in ``pairs`` pairs of turns of ``steps`` steps each, and then to their ends; their blocks are
    the turns. Every other time they come in the opposite order.

    A side that has no more steps ends the turns early. UserError where one of them fails, or there were too few turns.
    """
    needed = _WARM + pairs * (steps + 3) + _SPARE
    more = [f"schedule.total_steps={needed}", "monitor.memory=true", *_PATIENT]
    names = string.ascii_lowercase[: len(sides)]
    told(f"{', '.join(names.upper())} start and warm up")
    running: list[Training] = []
    try:
        for name, words in zip(names, sides, strict=True):
            running.append(Training(with_words(words, *more), folder / name))
        _warm_up(running)
        taken: list[list[list[StepRecord]]] = [[] for _ in running]
        for pair in range(pairs):
            order = range(len(running)) if pair % 2 == 0 else reversed(range(len(running)))
            round_of = {which: _turn(running[which], steps) for which in order}
            if not all(round_of.values()):
                break
            for which, turn in round_of.items():
                taken[which].append(turn)
            if (pair + 1) % max(1, pairs // 10) == 0:
                told(f"{pair + 1} of {pairs} pairs of turns")
        for side in running:
            side.go()
        for side in running:
            side.require_success()
        if len(taken[0]) < LEAST_PAIRS:
            raise UserError(f"a side ended after {len(taken[0])} pairs of turns: its data has too few steps", mend="--pairs 5 --steps 2")
    finally:
        stop_all(running)
    return [_measure(side, own) for side, own in zip(running, taken, strict=True)]


def _warm_up(sides: Sequence[Training]) -> None:
    """Let all of them import, compile and warm up beside each other, and hold each one that has."""
    waiting = {side: 0 for side in sides}
    while waiting:
        for side in list(waiting):
            ended = not side.running
            waiting[side] += len(side.new_steps())
            if waiting[side] >= _WARM and not ended:
                side.hold()
                del waiting[side]
            elif ended:
                side.require_success()
                raise UserError(f"{' '.join(side.words)} ended after {waiting[side]} steps, before its turns", mend="more steps")
        time.sleep(_IDLE)


def _asked(of: dict[str, Any]) -> str:
    return f"{shlex.join(of['a'])} and {shlex.join(of['b'])}, {of['pairs']} pairs of {of['steps']} steps"


def _turn(side: Training, steps: int) -> list[StepRecord]:
    """``steps`` whole steps; none where the side ended before. The first record of a turn is of the step that was held before it: it
    does not count."""
    side.new_steps()
    side.go()
    found: list[StepRecord] = []
    while len(found) < steps + 1:
        found += side.new_steps()
        if not side.running and len(found) < steps + 1:
            side.require_success()
            return []
        time.sleep(_POLL)
    side.hold()
    return found[1 : steps + 1]


def _measure(side: Training, turns: list[list[StepRecord]]) -> Measured:
    """The side's figures, with its turns as blocks."""
    return replace(
        measure(Recorded(side.path)),
        blocks=[[record.step_time for record in turn] for turn in turns],
        cpu_blocks=[[record.cpu_time for record in turn if record.cpu_time is not None] for turn in turns],
    )
