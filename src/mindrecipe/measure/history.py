"""What earlier processes of a run left in its directory, put in order before the next ones write theirs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from mindrecipe.measure.artifacts import origin_of
from mindrecipe.measure.record import StepRecord, read_steps, to_line
from mindrecipe.measure.tail import trim_torn_line
from mindrecipe.runfiles import LOCK, METRICS


def keep_steps(metrics: Path, last: int) -> list[StepRecord]:
    """Leave the records up to step ``last`` in metrics.jsonl, and return them: it keeps one line a step.

    A run that was killed had trained on after its last checkpoint: those steps are about to be trained and recorded again. The file
    that holds them is kept under a numbered name. An unfinished last line is cut off.
    """
    records = list(read_steps(metrics))
    kept = [record for record in records if record.step <= last]
    if len(kept) == len(records):
        trim_torn_line(metrics)
        return kept
    new = metrics.with_name(f"{metrics.name}.new")
    new.write_text("".join(map(to_line, kept)), encoding="utf-8")
    set_aside(metrics)
    os.replace(new, metrics)
    return kept


def steps_before(run_dir: Path) -> Iterator[StepRecord]:
    """All records before what the run in ``run_dir`` trains now, oldest first: those of the runs it continues, and its own."""
    runs = [(run_dir, math.inf)]
    while (origin := origin_of(runs[-1][0])) is not None:
        earlier = next((path for path in Path(origin["checkpoint"]).parents if (path / LOCK).exists()), None)
        if earlier is None or earlier.resolve() in {folder.resolve() for folder, _ in runs}:
            break
        runs.append((earlier, origin["step"]))
    for folder, last in reversed(runs):
        yield from (record for record in read_steps(folder / METRICS) if record.step <= last)


def forget_evaluation(run_dir: Path) -> None:
    """Remove what was evaluated before: it is of other weights, and perhaps of more ranks, whose files nobody would write anew."""
    for result in (run_dir / "heldout").glob("rank_*.json"):
        result.unlink()


def set_aside(path: Path) -> Path | None:
    """Rename ``rank_0.log`` to ``rank_0.1.log``, or the next free number; None if there is nothing to rename."""
    if not path.exists():
        return None
    number = 1
    while (target := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    path.rename(target)
    return target
