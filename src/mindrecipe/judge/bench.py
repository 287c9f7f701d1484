"""Two recipes measured in turns, so that what else the machine does strikes both alike.

Both trainings are started, each its own process, and warmed up. Then one runs a few steps while the other is held (SIGSTOP), and the
other way round, in the order A B B A. Only steps that lie wholly inside a turn count. The ratio of two turns of one pair is free of
whatever lasts longer than a pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindrecipe.errors import UserError
from mindrecipe.judge.measured import Measured, measure
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.training import Training, wait_for_steps, with_words
from mindrecipe.measure.curves import WARM_UP_STEPS
from mindrecipe.measure.record import StepRecord

_WARM = WARM_UP_STEPS + 3
_POLL = 0.004
_SPARE = 20  # steps that pass unseen while a side is being held
LEAST_PAIRS = 5


@dataclass(frozen=True, slots=True)
class Benched:
    """Both sides; their ``blocks`` are turns, the i-th of one beside the i-th of the other."""

    a: Measured
    b: Measured
    path: Path


def run(
    a: Sequence[str], b: Sequence[str], folder: Path, *, pairs: int, steps: int, told: Callable[[str], None] = lambda _: None
) -> Benched:
    """Train ``a`` and ``b`` below ``folder`` in ``pairs`` pairs of turns of ``steps`` steps each, and then to their ends.

    A side that has no more steps ends the turns early. UserError where one of them fails, or there were too few turns.
    """
    if folder.exists():
        raise UserError(f"{folder} exists: a measurement never writes into another one's", mend="another --output")
    needed = _WARM + pairs * (steps + 3) + _SPARE
    more = [f"schedule.total_steps={needed}", "monitor.memory=true"]
    sides: list[Training] = []
    try:
        for name, words in (("a", a), ("b", b)):
            told(f"{name.upper()} starts and warms up")
            side = Training(with_words(words, *more), folder / name)
            sides.append(side)
            warm = wait_for_steps(side, _WARM)
            if len(warm) < _WARM:
                side.require_success()
                raise UserError(f"{' '.join(words)} ended after {len(warm)} steps, before it was warm", mend="more steps")
            side.hold()
        turns: tuple[list[list[StepRecord]], list[list[StepRecord]]] = ([], [])
        for pair in range(pairs):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            taken = {which: _turn(sides[which], steps) for which in order}
            if not all(taken.values()):
                break
            for which, turn in taken.items():
                turns[which].append(turn)
            if (pair + 1) % max(1, pairs // 10) == 0:
                told(f"{pair + 1} of {pairs} pairs of turns")
        for side in sides:
            side.go()
            side.require_success()
        if len(turns[0]) < LEAST_PAIRS:
            raise UserError(f"a side ended after {len(turns[0])} pairs of turns: its data has too few steps", mend="--pairs 5 --steps 2")
    finally:
        for side in sides:
            side.stop()
    left, right = (_measure(side, own) for side, own in zip(sides, turns, strict=True))
    return Benched(left, right, folder)


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
