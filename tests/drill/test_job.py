"""Which run directories are a drilled job's, and in which order."""

from __future__ import annotations

from pathlib import Path

from mindrecipe.drill.job import Job


def test_what_was_set_aside_is_no_newest_run(tmp_path: Path) -> None:
    """Its files are counted where every launch is asked for, and nowhere else."""
    for name, step in (("run", 0), ("run-2", 5), ("run-10", 9), ("run.died", 3), ("run.died-2", 4), ("runner", 7)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock.json").write_text(f'{{"derived": {{"resume": {{"step": {step}}}}}}}')
        (tmp_path / name / "attempts.jsonl").write_text(f'{{"number": {step}}}\n')
    job = Job([], tmp_path / "run", 1.0)
    assert [run.path.name for run in job.runs()] == ["run", "run-2", "run-10"]
    assert (job.last_step(), job.resumed(), job.checkpoint_folder) == (9, 9, tmp_path / "run-10/checkpoint")
    assert {3, 4} <= {attempt["number"] for attempt in job.attempts()}
