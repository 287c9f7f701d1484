"""Baselines: a JSON line a recorded run, with who it was, all that a comparison needs, and the tolerances it is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.judge.measured import Measured, measure
from mindrecipe.judge.recorded import Recorded, is_run, open_run

SCHEMA = 1
DEFAULT_FILE = Path("baselines.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """``name`` is what it is called by in comparisons."""

    name: str
    measured: Measured
    tolerances: dict[str, float]
    note: str = ""


def record(run: Recorded, file: Path, *, name: str | None, tolerances: Mapping[str, float], note: str = "") -> Baseline:
    """Append ``run`` to ``file``. UserError for a run that did not end well, or a file that is no baseline file or can't be written."""
    state = run.summary.get("state", "unfinished")
    if state != "completed":
        raise UserError(
            f"{run.path} is {state}: a baseline is a run that went well", mend="a completed run; `mindrecipe runs ls` lists them"
        )
    if file.exists():
        read(file)  # never append to what is something else
    made = Baseline(name=name or run.name, measured=measure(run), tolerances=dict(tolerances), note=note)
    line = json.dumps(
        {"schema": SCHEMA, "name": made.name, "note": note, "tolerances": made.tolerances, "measured": made.measured.as_dict()}
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")
    except OSError as fault:
        raise UserError(f"can't write {file}: {fault.strerror}", mend="--file <a file in a folder of yours>") from fault
    return made


def read(file: Path) -> list[Baseline]:
    """All baselines of ``file``, oldest first. UserError for a line that is none, or a file that can't be read."""
    found = []
    try:
        lines = file.read_bytes().splitlines()
    except OSError as fault:
        raise UserError(f"{file} can't be read: {fault.strerror}", mend="a file that `mindrecipe baseline record` has written") from fault
    for number, line in enumerate(lines, 1):
        try:
            raw: dict[str, Any] = json.loads(line)
            version = raw["schema"]
            if version != SCHEMA:
                raise UserError(f"{file}:{number} has schema {version}, this mindrecipe reads {SCHEMA}", mend="record the run again")
            found.append(
                Baseline(
                    name=raw["name"],
                    measured=Measured.from_dict(raw["measured"]),
                    tolerances=raw["tolerances"],
                    note=raw.get("note", ""),
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise UserError(f"{file}:{number} is no baseline", mend="a file that `mindrecipe baseline record` has written") from fault
    return found


def open_side(text: str, file: Path = DEFAULT_FILE) -> Baseline:
    """One side of a comparison: a run directory (or what names one below ./runs), FILE.jsonl, FILE.jsonl:NAME, or a name in ``file``.

    Of several baselines with a name it is the last. UserError where there is no such thing.
    """
    if is_run(Path(text)):
        return _of_run(open_run(text))
    path, colon, name = text.partition(":")
    if path.endswith(".jsonl"):
        if not Path(path).is_file():
            raise UserError(f"there is no baseline file {path}", mend="mindrecipe baseline record RUN --file " + path)
        return _named(read(Path(path)), name if colon else None, Path(path))
    if file.is_file():
        known = read(file)
        if any(baseline.name == text for baseline in known):
            return _named(known, text, file)
    return _of_run(open_run(text))


def _of_run(run: Recorded) -> Baseline:
    return Baseline(name=run.title, measured=measure(run), tolerances={})


def _named(known: list[Baseline], name: str | None, file: Path) -> Baseline:
    found = [baseline for baseline in known if name in (None, baseline.name)]
    if not found:
        names = ", ".join(dict.fromkeys(baseline.name for baseline in known)) or "none"
        raise UserError(f"{file} has no baseline {name!r}; it has {names}", mend="mindrecipe baseline ls --file " + str(file))
    return found[-1]
