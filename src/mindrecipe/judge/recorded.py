"""A run as it was recorded: everything in its directory that says how it went, read when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.measure import curves, numbers
from mindrecipe.measure.artifacts import read_config
from mindrecipe.measure.record import Event, RankStep, StepRecord, Usage, read_events, read_lines, read_rank_steps, read_steps, read_usage
from mindrecipe.measure.summary import history

LOCK, SUMMARY, EVALUATIONS = "lock.json", "summary.json", "evaluations"


@dataclass(frozen=True)
class Recorded:
    """The run in ``path``. Files that it does not have are empty: a run that was stopped early has no summary."""

    path: Path

    @cached_property
    def lock(self) -> dict[str, Any]:
        """lock.json: what the run was made of."""
        return _read(self.path / LOCK)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """summary.json: how it ended; losses that are not finite are strings there, floats here."""
        return {key: numbers.told(value) for key, value in _read(self.path / SUMMARY).items()}

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.yaml: the resolved configuration."""
        return read_config(self.path)

    @cached_property
    def steps(self) -> list[StepRecord]:
        """The steps that led to the final weights."""
        return history(read_steps(self.path / "metrics.jsonl"))

    @cached_property
    def timed(self) -> list[StepRecord]:
        """The steps that say how fast it was: without warm-up and compilation, and without profiled steps."""
        return curves.timed(self.steps)

    @cached_property
    def events(self) -> list[Event]:
        """Phases of all ranks."""
        return [event for path in sorted((self.path / "logs").glob("rank_*.events.jsonl")) for event in read_events(path)]

    @cached_property
    def rank_steps(self) -> dict[int, list[RankStep]]:
        """Each rank's own step times, where there are several ranks."""
        return {rank: read_rank_steps(path) for rank, path in _by_rank(self.path, "steps")}

    @cached_property
    def rank_timed(self) -> dict[int, list[RankStep]]:
        """Of :attr:`rank_steps` those that say how fast a rank was."""
        untimed = {record.step for record in self.steps if record.profiled or record.warm_up}
        return {
            rank: [record for record in records[curves.WARM_UP_STEPS :] if record.step not in untimed]
            for rank, records in self.rank_steps.items()
        }

    @cached_property
    def usage(self) -> dict[int, list[Usage]]:
        """Each rank's samples of what it used."""
        return {rank: read_usage(path) for rank, path in _by_rank(self.path, "usage")}

    @cached_property
    def restarts(self) -> list[dict[str, Any]]:
        """The attempts that followed a failed one, as attempts.jsonl has them (launch/restart.py, Attempt)."""
        numbered = read_lines(self.path / "attempts.jsonl", lambda raw: (int(raw["number"]), raw))
        return [attempt for number, attempt in numbered if number > 1]

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """The newest finished evaluation (see judge/evaluate.py); empty where there is none."""
        found = sorted((self.path / EVALUATIONS).glob("*/evaluation.json"), key=lambda path: path.stat().st_mtime)
        return {key: numbers.told(value) for key, value in _read(found[-1]).items()} if found else {}

    @property
    def derived(self) -> dict[str, Any]:
        """What followed from the configuration."""
        return dict(self.lock.get("derived") or {})

    @property
    def reached(self) -> int:
        """The last step that was made, counted from the run's very beginning: one that went on from a checkpoint has only its own steps
        in its directory."""
        last = self.steps[-1].step if self.steps else 0
        return max(last, int(self.summary.get("steps") or 0))

    @property
    def name(self) -> str:
        """The run's name: that of its folder's folder, or what it was called."""
        return str(self.config.get("run", {}).get("name") or self.path.parent.name)

    @property
    def title(self) -> str:
        """Name and folder, short."""
        return f"{self.name} {self.path.name}" if self.name != self.path.name else self.name

    @property
    def losses(self) -> list[float]:
        """One a step."""
        return [record.loss for record in self.steps]


def is_run(path: Path) -> bool:
    """Whether ``path`` is a run directory."""
    return (path / LOCK).is_file()


def open_run(text: str, root: Path = Path("runs")) -> Recorded:
    """The run that ``text`` names: its directory, the name of its directory below ``root``, or "last". UserError where there is none."""
    path = Path(text).expanduser()
    if is_run(path):
        return Recorded(path.absolute())
    known = sorted(find_runs(root), key=lambda run: (run.path / LOCK).stat().st_mtime)
    if text == "last" and known:
        return known[-1]
    found = [run for run in known if run.path.name == text]
    if found:
        return found[-1]
    what = f"{text} is not a run directory: it has no {LOCK}" if path.exists() else f"there is no run {text}"
    raise UserError(what, mend=f"{known[-1].path}" if known else f"a run directory; there is none below {root}/ yet: train one first")


def find_runs(root: Path) -> Iterator[Recorded]:
    """Every run that `train` put below ``root``; those of experiments lie deeper."""
    for pattern in (f"*/{LOCK}", f"*/*/{LOCK}"):
        for lock in root.glob(pattern):
            if not lock.parent.name.startswith("."):
                yield Recorded(lock.parent.absolute())


def _by_rank(path: Path, kind: str) -> list[tuple[int, Path]]:
    found = (path / "logs").glob(f"rank_*.{kind}.jsonl")
    return sorted((int(file.name.split(".")[0].removeprefix("rank_")), file) for file in found)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as fault:  # of letters, of JSON, of something that is no object
        raise UserError(f"{path} can't be read: {fault}", mend="`mindrecipe runs ls` shows the other runs") from fault
