"""Where a failed run goes on, in its own directory: before another attempt at it, and what becomes of checkpoints it goes back behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.aside import set_aside, steps_aside
from mindrecipe.checkpoints.find import Checkpoint, Found, find, trusted
from mindrecipe.derive import Derived
from mindrecipe.ended import had_some
from mindrecipe.errors import UserError
from mindrecipe.measure.record import read_events
from mindrecipe.resume import Start, begin_from, decide, not_whole, only, trained_out
from mindrecipe.runfiles import RunFiles


def again(derived: Derived, run: Path, before: int | None) -> Start:
    """Where a failed run goes on in its own directory: its newest good checkpoint (``before`` a step), else where it first started.

    All ranks' files lie in it, and only what all of them have finished counts: one that a rank was killed at is no checkpoint yet.
    Checkpoints of later steps are set aside, and it is said: they are of weights that it leaves behind. UserError where there are or
    were checkpoints and none of them will do: then nobody should start afresh unasked.
    """
    start, step, there = _newest_of(derived, run, before)
    aside = set_aside(RunFiles(path=run).checkpoints, step, derived.device_num, there)
    if aside is None:
        return start
    place, steps = aside
    return replace(start, said=(*start.said, f"checkpoints of later steps ({', '.join(map(str, steps))}) are now in {place}"))


def _newest_of(derived: Derived, run: Path, before: int | None) -> tuple[Start, int, Sequence[Checkpoint]]:
    """What ``again`` starts from, the step of that checkpoint (0: none of this run's), and all checkpoints there are."""
    finished = manifest.finished(RunFiles(path=run).checkpoints, derived.device_num)
    found = find(run)
    there = found.complete
    if finished is not None:
        found = Found(tuple(each for each in found.complete if each.step in finished), found.broken if had_some(derived, run) else ())
    found = trusted(only(found, None, before))
    if found.complete:
        newest = found.complete[-1]
        left = derived.total_steps is not None and newest.step >= derived.total_steps
        return trained_out(derived, run, newest) if left else begin_from(derived, run, found), newest.step, there
    if found.broken:
        raise not_whole(run, found.broken)
    gone = max(finished or (), default=None) if before is None else _saved_before(derived, run, before)
    if gone is not None:
        earlier = "" if before is None else f" before step {before}"
        raise UserError(
            f"no checkpoint{earlier} under {run}, though one of step {gone} was saved: it is gone",
            mend="checkpoint.resume=never to start from scratch, in a run.dir of its own",
        )
    start = decide(derived, run)
    none = "no checkpoint yet" if before is None else f"no checkpoint was saved before step {before}"
    said = (f"{none}: starting again where the run began", *start.said) if before is not None or not start.said else start.said
    return replace(start, said=said), 0, there


def _saved_before(derived: Derived, run: Path, before: int) -> int | None:
    """The newest step before ``before`` whose checkpoint all ranks of ``run`` say to have finished, and that no attempt has set aside."""
    files = RunFiles(path=run)
    told = (read_events(files.events(rank)) for rank in range(derived.device_num))
    saved = [{event.detail["step"] for event in events if event.phase == "checkpoint"} for events in told]
    left = set.intersection(*saved) - steps_aside(files.checkpoints)
    return max((step for step in left if step < before), default=None)
