"""mindrecipe baseline: runs kept to compare later ones with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.tables import print_table, stdout
from mindrecipe.errors import UserError
from mindrecipe.judge import baseline as store
from mindrecipe.judge import tables, thresholds
from mindrecipe.judge.recorded import open_run

baseline = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Runs kept to compare later ones with.")

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
    made = store.record(open_run(run), file, name=name, tolerances=thresholds.parse(threshold or ()), note=note)
    stdout().print(f"{made.name} appended to {file}")


@baseline.command()
def ls(file: File = store.DEFAULT_FILE) -> None:
    """List the baselines of a file, oldest first.

    \b
    Examples:
      mindrecipe baseline ls
    """
    if not file.is_file():
        raise UserError(f"there is no baseline file {file}", mend="mindrecipe baseline record RUN")
    rows = []
    for kept in store.read(file):
        who, measured = kept.measured.identity, kept.measured
        rows.append(
            [
                kept.name,
                who.time or "",
                who.model or "",
                str(who.hardware.get("device")),
                tables.figure("final_loss", measured.final_loss),
                tables.figure("throughput", measured.tokens_per_s),
                tables.figure("memory", measured.peak_memory_bytes),
                kept.note,
            ]
        )
    print_table(("name", "time", "model", "device", "loss", "tokens/s", "memory", "note"), rows)
