"""What the commands of experiments share: where a table goes, as CSV, Markdown and HTML, and on the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.cli.tables import print_table, write_output
from mindrecipe.judge import cores, tables
from mindrecipe.judge.report.page import table_page
from mindrecipe.judge.tables import Column
from mindrecipe.run import Run

AsJson = Annotated[bool, typer.Option("--json", help="JSON for scripts: numbers in base units.")]


def readable(trainings: Sequence[Sequence[str]]) -> list[Run]:
    """UserErrors for words that no training could read (an unknown key, a value that is none), before any of them is started.

    What the rules say of a training is left to it: a combination that can't be is a row of the table.
    """
    return [Run.from_overrides(list(words)) for words in trainings]


def advise(trainings: Sequence[Run]) -> None:
    """Tell, before they are measured in turns, what would make their speeds surer."""
    said = cores.advice([run.derived for run in trainings], max((run.machine.cores for run in trainings), default=1))
    if said is not None:
        stderr().print(said)


def finish(
    folder: Path,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    *,
    as_json: bool,
    drawings: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Print the table (``as_json``: its numbers), and write it to ``folder`` in three forms."""
    names, told = [column.name for column in columns], tables.told(columns, rows)
    if as_json:
        print(json.dumps({"folder": str(folder), "rows": tables.records(columns, rows), "notes": list(notes)}, indent=2, allow_nan=False))
    else:
        print_table(names, told)
        for note in notes:
            print(note)
    write_output(folder / "table.csv", tables.comma_separated(columns, rows))
    write_output(folder / "table.md", f"# {title}\n\n{tables.markdown(names, told)}" + "".join(f"\n* {note}" for note in notes) + "\n")
    write_output(folder / "table.html", table_page(title, names, told, drawings or {}, notes))
    stderr().print(f"table.csv, table.md, table.html, and every run: {folder}")
