"""The table of runs: one row a run, sorted by any of its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mindrecipe.config.keys import nearest_word
from mindrecipe.errors import UserError
from mindrecipe.judge.recorded import Recorded

#: column -> how it is read of a run; null is "was not measured"
COLUMNS: dict[str, Callable[[Recorded], Any]] = {
    "run": lambda run: str(run.path),
    "name": lambda run: run.path.parent.name,
    "created": lambda run: run.lock.get("created"),
    "state": lambda run: run.summary.get("state", "unfinished"),
    "steps": lambda run: run.summary.get("steps"),
    "final_loss": lambda run: run.summary.get("final_loss"),
    "heldout_loss": lambda run: run.summary.get("heldout_loss"),
    "tokens_per_s": lambda run: run.summary.get("tokens_per_s"),
    "step_p50": lambda run: (run.summary.get("step_time") or {}).get("p50"),
    "step_p95": lambda run: (run.summary.get("step_time") or {}).get("p95"),
    "mfu": lambda run: run.summary.get("mfu"),
    "peak_memory_bytes": lambda run: run.summary.get("peak_memory_bytes"),
    "device": lambda run: run.derived.get("device"),
    "device_num": lambda run: run.derived.get("device_num"),
    "overrides": lambda run: " ".join(word for word in run.lock.get("command", ()) if not word.lstrip("+").startswith("run.")),
    "config_hash": lambda run: run.lock.get("config_hash"),
}
UNREADABLE = "unreadable"
#: of these more is better: they are sorted with the largest first
DESCENDING = ("tokens_per_s", "mfu", "created", "steps")


@dataclass(frozen=True, slots=True)
class Row:
    """A run and its figures, by the names of :data:`COLUMNS`; ``fault`` is why some of them can't be read."""

    run: Recorded
    values: dict[str, Any]
    fault: str | None = None


def rows(runs: Iterable[Recorded], *, sort: str = "created", reverse: bool = False) -> list[Row]:
    """One row a run, the best of ``sort`` first (``reverse``: last); runs that have no such figure, or none that is finite, come last.

    UserError for no column.
    """
    if sort not in COLUMNS:
        near = nearest_word(sort, COLUMNS, 1)
        raise UserError(f"runs have no {sort!r}; they have {', '.join(COLUMNS)}", mend=f"--sort {near[0]}" if near else None)
    found = [_row(run) for run in runs]
    known = [row for row in found if _is_known(row.values[sort])]
    unknown = [row for row in found if not _is_known(row.values[sort])]
    known.sort(key=lambda row: row.values[sort], reverse=(sort in DESCENDING) != reverse)
    return [*known, *unknown]


def _row(run: Recorded) -> Row:
    """A run some of whose files are damaged shows what the others say, and that it is "unreadable"."""
    values: dict[str, Any] = {}
    fault = None
    for name, read in COLUMNS.items():
        try:
            values[name] = read(run)
        except UserError as told:
            values[name], fault = None, fault or told.what
    return Row(run, values if fault is None else {**values, "state": UNREADABLE}, fault)


def _is_known(value: Any) -> bool:
    """A diverged run's loss is no number, and neither more nor less than others'."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))
