"""Baselines: a JSON line a recorded run, with who it was, all that a comparison needs, and the tolerances it is compared with."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.config.keys import nearest_word
from mindrecipe.errors import UserError
from mindrecipe.judge.measured import Measured, measure
from mindrecipe.judge.recorded import Recorded, find_runs, is_run, open_run

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
        _append(file, line)
    except OSError as fault:
        raise UserError(f"can't write {file}: {fault.strerror}", mend="--file <a file in a folder of yours>") from fault
    return made


def _append(file: Path, line: str) -> None:
    """A line of its own, also after a last one that an editor has left without an end; on a full disk the file stays as it was."""
    new = not file.exists()
    ends = new or file.read_bytes()[-1:] in (b"", b"\n")
    with file.open("ab", buffering=0) as lines:
        size, left = lines.tell(), memoryview(f"{line}\n".encode() if ends else f"\n{line}\n".encode())
        try:
            while left:
                left = left[lines.write(left) :]
            os.fsync(lines.fileno())
        except OSError:
            os.ftruncate(lines.fileno(), size)
            if new:
                file.unlink()
            raise


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
    known = read(file) if file.is_file() else []
    if any(baseline.name == text for baseline in known):
        return _named(known, text, file)
    try:
        run = open_run(text)
    except UserError as fault:
        if text == "last" or Path(text).exists():  # it can't be meant for a baseline
            raise
        raise _neither(text, known, file) from fault
    return _of_run(run)


def _neither(text: str, known: Sequence[Baseline], file: Path) -> UserError:
    """The newest run, which is what there is in place of a run, would be compared with itself where the name is a baseline's."""
    names = list(dict.fromkeys(baseline.name for baseline in known))
    has = f"{file} has {', '.join(names) or 'none'}" if file.is_file() else f"there is no {file}"
    runs = [run.path.name for run in find_runs(Path("runs"))]
    near = nearest_word(text, [*names, *runs], 1)
    other = f"mindrecipe baseline record RUN --name {shlex.quote(text)}, or --file <the file that has it>"
    return UserError(f"there is no run {text}, and no baseline of that name: {has}", mend=near[0] if near else other)


def _of_run(run: Recorded) -> Baseline:
    return Baseline(name=run.title, measured=measure(run), tolerances={})


def _named(known: list[Baseline], name: str | None, file: Path) -> Baseline:
    found = [baseline for baseline in known if name in (None, baseline.name)]
    if not found:
        names = ", ".join(dict.fromkeys(baseline.name for baseline in known)) or "none"
        raise UserError(f"{file} has no baseline {name!r}; it has {names}", mend="mindrecipe baseline ls --file " + str(file))
    return found[-1]
