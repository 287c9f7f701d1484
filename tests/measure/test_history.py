"""What earlier processes of a run left, as the next one reads it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from samples import step

from mindrecipe.config.schema import WatchConfig
from mindrecipe.freeze import freeze_evaluation
from mindrecipe.lower.place import Resume
from mindrecipe.measure.artifacts import origin_of, resumed_step
from mindrecipe.measure.history import steps_before
from mindrecipe.measure.record import to_line
from mindrecipe.worker.watch import Watch


def test_the_steps_before_are_found_in_the_runs_that_a_run_continues(tmp_path: Path) -> None:
    """x was resumed at step 4 by x-2, and that at step 6 by x-3, which has been started again at 7: from a checkpoint of its own."""
    for name, steps, resume in (("x", range(1, 6), None), ("x-2", range(5, 9), ("x", 4)), ("x-3", range(7, 8), ("x-2", 6))):
        run = tmp_path / name
        run.mkdir()
        (run / "metrics.jsonl").write_text("".join(to_line(step(number, loss=float(len(name) + number))) for number in steps))
        folder = None if resume is None else {"checkpoint": str(tmp_path / resume[0] / "checkpoint"), "file": None, "step": resume[1]}
        (run / "lock.json").write_text(json.dumps({"derived": {"resume": folder}}))  # x-2's is of a version without an origin
    freeze_evaluation(tmp_path / "x-3", Resume(folder=str(tmp_path / "x-3/checkpoint"), file_name=None, step=7))
    assert resumed_step(tmp_path / "x-3") == 7
    found = steps_before(tmp_path / "x-3")
    assert [(record.step, record.loss) for record in found] == [(1, 2), (2, 3), (3, 4), (4, 5), (5, 8), (6, 9), (7, 10)]
    assert list(steps_before(tmp_path / "nowhere")) == []


def test_an_attempt_that_goes_back_behind_the_run_goes_on_from_there(tmp_path: Path) -> None:
    """From another checkpoint of the earlier run, or from scratch: that is then where the run as a whole began."""
    (tmp_path / "lock.json").write_text(json.dumps({"derived": {"resume": None, "origin": None}}))
    for folder, began, origin in (("/x/checkpoint", 6, 6), (str(tmp_path / "checkpoint"), 9, 6), ("/x/checkpoint", 4, 4)):
        freeze_evaluation(tmp_path, Resume(folder=folder, file_name=None, step=began))
        found = origin_of(tmp_path)
        assert found is not None and found["step"] == origin and resumed_step(tmp_path) == began


def test_a_run_that_goes_on_knows_its_limits_to_the_bit(tmp_path: Path) -> None:
    """Spikes move no median: with them among the last records, more than the last ones make the straight run's limit."""
    config = asdict(WatchConfig()) | {"window": 10, "loss_spike_factor": 1.5}
    records = [step(number, loss=100.0 if number % 3 == 0 else 5.0 - number / 100) for number in range(1, 41)]
    straight = Watch(config)
    for record in records:
        list(straight.look(record, (0.0,)))
    (tmp_path / "metrics.jsonl").write_text("".join(map(to_line, records)))
    assert Watch(config, steps_before(tmp_path)).loss_limit == straight.loss_limit
