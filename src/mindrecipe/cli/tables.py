"""How judgements are shown: tables that fit the terminal, tab-separated lines in a pipe, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mindrecipe.errors import UserError
from mindrecipe.judge import tables
from mindrecipe.judge.compare import Comparison

_FOLDED = 24  # letters that a folded column may have


def stdout() -> Console:
    """A console for results: never wraps a line in a pipe, no markup."""
    return Console(highlight=False, markup=False, soft_wrap=True)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, styled: str | None = None, notes: str | None = None, spare: str | None = None
) -> None:
    """Print a table; ``styled`` is the column of verdicts. On a narrow terminal the column ``notes`` goes under the table, the column
    ``spare`` is left out, and what still does not fit is told row by row. Columns without a word are left out."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        print("\t".join(columns))
        for row in rows:
            print("\t".join(row))
        return
    below = notes if notes in columns and console.width < 140 else None
    filled = [name for at, name in enumerate(columns) if not rows or any(row[at] for row in rows)]
    shown = [name for name in filled if name != below and not (name == spare and console.width < 100)]
    if _width(columns, rows, shown) > console.width:
        _row_by_row(console, columns, rows, [name for name in filled if name != columns[0]])
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in shown:
        table.add_column(name, overflow="fold", no_wrap=name in (columns[0], styled))
    told: list[tuple[str, str]] = []
    for row in rows:
        values = dict(zip(columns, row, strict=True))
        table.add_row(*(Text(values[name], tables.style(values[name]) if name == styled else "") for name in shown))
        if below is not None and values[below]:
            told.append((row[0], values[below]))
    console.print(table)
    for name, note in told:
        console.print(Text.assemble((f"{name}: ", "bold"), note))


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[str]) -> int:
    """Letters that the columns ``shown`` need side by side; a long text can be folded."""
    cells = [[name, *(row[at] for row in rows)] for at, name in enumerate(columns) if name in shown]
    return sum(min(_FOLDED, max(map(len, column))) + 2 for column in cells)


def _row_by_row(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[str]) -> None:
    for row in rows:
        values = dict(zip(columns, row, strict=True))
        console.print(Text(f"{columns[0]} {row[0]}", "bold"))
        told = [
            f"{name} {values[name]}".replace(" ", "\u00a0") if len(values[name]) < _FOLDED else values[name]
            for name in shown
            if values[name]
        ]
        console.print(Padding(Text(", ".join(told)), (0, 0, 0, 2)))


def print_comparison(found: Comparison, names: tuple[str, str]) -> None:
    """The table, what could not be compared and why, and the verdict."""
    console = stdout()
    console.print(Text.assemble(("A ", "bold"), names[0], ("   B ", "bold"), names[1]))
    if found.metrics:
        print_table(tables.COMPARED, tables.compared(found), styled="verdict", notes="note", spare="95 % interval")
    for note in found.notes:
        console.print(f"note: {note}")
    for reason in found.why_not:
        console.print(Text.assemble(("not comparable: ", "bold yellow"), reason))
    console.print(Text.assemble("verdict: B is ", (found.verdict, tables.style(found.verdict))))


def make_folder(folder: Path) -> None:
    """Make ``folder``, unless it is there. UserError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UserError(f"can't make the folder {folder}: {fault.strerror}", mend="-o <a folder of yours>") from fault


def write_output(output: Path, text: str) -> None:
    """Write ``text`` to ``output``. UserError where that is not possible."""
    make_folder(output.parent)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UserError(f"can't write {output}: {fault.strerror}", mend="-o <a file in a folder of yours>") from fault
