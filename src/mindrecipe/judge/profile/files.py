"""Where the profiler's files of a run are, and how its tables are read.

mindformers' ProfileMonitor writes to ``profile/rank_N/<host>_<pid>_<time>_ascend_ms/``: FRAMEWORK holds what the framework itself
recorded (all there is on CPU, but for the timeline), ASCEND_PROFILER_OUTPUT what was made of the device's records.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

DEVICE, FRAMEWORK = "ASCEND_PROFILER_OUTPUT", "FRAMEWORK"
_NOTHING = ("", "N/A")


def folders(run: Path) -> dict[int, Path]:
    """The profile of each profiled rank: the newest one, where a run was started several times."""
    found: dict[int, Path] = {}
    for path in sorted(run.glob("profile/rank_*/*_ascend_ms"), key=_made):
        found[int(path.parent.name.removeprefix("rank_"))] = path
    return dict(sorted(found.items()))


def _made(path: Path) -> str:
    """The time in the folder's name, which is written with the same number of digits always."""
    return path.name.removesuffix("_ascend_ms").rpartition("_")[2]


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file by its header; none where there is no such file (each kind is written only with its level or device)."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield {name.strip(): value.strip() for name, value in row.items() if name is not None and isinstance(value, str)}


def number(value: str | None) -> float | None:
    """A cell's number; None of "N/A" and of an empty one."""
    return None if value is None or value in _NOTHING else float(value)
