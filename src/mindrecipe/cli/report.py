"""mindrecipe report: one or several runs on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.tables import write_output
from mindrecipe.errors import UserError
from mindrecipe.judge.recorded import open_run
from mindrecipe.judge.report import page, plain
from mindrecipe.judge.report.sheet import sheet

FORMATS = {"html": page.page, "md": plain.markdown, "json": plain.as_json}


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help='Run directories, their names, or "last".', show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; without it report.html, and md and json to the terminal.", show_default=False),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="html, md or json; without it by the name of the file.", show_default=False)
    ] = None,
) -> None:
    """Report on runs: curves, where the time went, ranks, memory, configuration, lock, and the first compared with the others.

    The HTML page is one file without scripts that needs no network.

    \b
    Examples:
      mindrecipe report last
      mindrecipe report runs/tiny_cpu/* -o report.html
      mindrecipe report last --format md
    """
    found = form or (output.suffix.lstrip(".") if output is not None else "html")
    if found not in FORMATS:
        raise UserError(f"there is no format {found!r}: html, md or json", mend="--format html")
    told = FORMATS[found](sheet([open_run(run) for run in runs]))
    if output is None and found != "html":
        print(told, end="")
        return
    output = output or Path("report.html")
    write_output(output, told)
    print(output)
