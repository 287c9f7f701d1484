"""mindrecipe baseline: runs kept to compare later ones with."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mindrecipe.cli.tables import print_table, stdout
from mindrecipe.errors import UserError
from mindrecipe.judge import baseline as store
from mindrecipe.judge import tables, thresholds
from mindrecipe.judge.recorded import open_run
from mindrecipe.judge.tables import Column

baseline = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Runs kept to compare later ones with.")

_COLUMNS = (
    Column("name", "name"),
    Column("time", "time"),
    Column("model", "model"),
    Column("device", "device"),
    Column("loss", "final_loss", partial(tables.figure, "final_loss")),
    Column("tokens/s", "tokens_per_s", partial(tables.figure, "throughput")),
    Column("memory", "memory_bytes", partial(tables.figure, "memory")),
    Column("note", "note"),
)

File = Annotated[Path, typer.Option("--file", help="The baseline file (JSON lines).")]


@baseline.command()
def record(
    run: Annotated[str, typer.Argument(metavar="RUN", help='A run directory, its name, or "last".', show_default=False)],
    file: File = store.DEFAULT_FILE,
    name: Annotated[str | None, typer.Option("--name", help="What to call it; without it the run's name.", show_default=False)] = None,
    threshold: Annotated[
        list[str] | None, typer.Option("--threshold", help="A tolerance to keep with it, e.g. throughput=0.05.", show_default=False)
    ] = None,
    note: Annotated[str, typer.Option("--note", help="A free word on it.")] = "",
) -> None:
    """Append a completed run to a baseline file, with the tolerances that later runs are compared with.

    \b
    Examples:
      mindrecipe baseline record last
      mindrecipe baseline record runs/tiny_cpu/20250101-120000-abc123 --name nightly --threshold step_p95=0.2
    """
    made = store.record(open_run(run), file, name=name, tolerances=thresholds.declared(threshold or ()), note=note)
    stdout().print(f"{made.name} appended to {file}")


@baseline.command()
def ls(file: File = store.DEFAULT_FILE, as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False) -> None:
    """List the baselines of a file, oldest first.

    \b
    Examples:
      mindrecipe baseline ls
    """
    if not file.is_file():
        raise UserError(f"there is no baseline file {file}", mend="mindrecipe baseline record RUN")
    rows: list[list[Any]] = []
    for kept in store.read(file):
        who, found = kept.measured.identity, kept.measured
        figures = [found.final_loss, found.tokens_per_s, found.peak_memory_bytes]
        rows.append([kept.name, who.time, who.model, who.hardware.get("device"), *figures, kept.note])
    if as_json:
        print(json.dumps(tables.records(_COLUMNS, rows), indent=2, allow_nan=False))
    else:
        print_table([column.name for column in _COLUMNS], tables.told(_COLUMNS, rows))
