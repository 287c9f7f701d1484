"""What earlier processes of a run left, as the next one reads it."""

from __future__ import annotations

import json
from pathlib import Path

from samples import step

from mindrecipe.measure.history import steps_before
from mindrecipe.measure.record import to_line


def test_the_steps_before_are_found_in_the_runs_that_a_run_continues(tmp_path: Path) -> None:
    """x was resumed at step 4 by x-2, and that at step 6 by x-3, which has been started again at 7."""
    for name, steps, resume in (("x", range(1, 6), None), ("x-2", range(5, 9), ("x", 4)), ("x-3", range(7, 8), ("x-2", 6))):
        run = tmp_path / name
        run.mkdir()
        (run / "metrics.jsonl").write_text("".join(to_line(step(number, loss=float(len(name) + number))) for number in steps))
        folder = None if resume is None else {"checkpoint": str(tmp_path / resume[0] / "checkpoint"), "file": None, "step": resume[1]}
        (run / "lock.json").write_text(json.dumps({"derived": {"resume": folder}}))
    found = steps_before(tmp_path / "x-3", 100)
    assert [(record.step, record.loss) for record in found] == [(1, 2), (2, 3), (3, 4), (4, 5), (5, 8), (6, 9), (7, 10)]
    assert [record.step for record in steps_before(tmp_path / "x-3", 3)] == [5, 6, 7]
    assert steps_before(tmp_path / "nowhere", 3) == []
