"""What the commands of experiments share: where a table goes, as CSV, Markdown and HTML, and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mindrecipe.cli.console import stderr
from mindrecipe.cli.tables import print_table, write_output
from mindrecipe.judge import tables
from mindrecipe.judge.report.page import table_page
from mindrecipe.run import Run


def require_readable(trainings: Sequence[Sequence[str]]) -> None:
    """UserErrors for words that no training could read (an unknown key, a value that is none), before any of them is started.

    What the rules say of a training is left to it: a combination that can't be is a row of the table.
    """
    for words in trainings:
        Run.from_overrides(list(words))


def finish(
    folder: Path,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    drawings: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Print the table, and write it to ``folder`` in three forms."""
    print_table(columns, rows)
    for note in notes:
        print(note)
    write_output(folder / "table.csv", tables.comma_separated(columns, rows))
    write_output(folder / "table.md", f"# {title}\n\n{tables.markdown(columns, rows)}" + "".join(f"\n* {note}" for note in notes) + "\n")
    write_output(folder / "table.html", table_page(title, columns, rows, drawings or {}, notes))
    stderr().print(f"table.csv, table.md, table.html, and every run: {folder}")
