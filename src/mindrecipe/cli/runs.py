"""mindrecipe runs: what has been trained here, best first by any figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mindrecipe.cli.console import stderr
from mindrecipe.errors import UserError
from mindrecipe.judge import listing
from mindrecipe.judge.recorded import find_runs
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.view import text

runs = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The runs below ./runs.")

_SHOWN = ("name", "run", "state", "steps", "final_loss", "heldout_loss", "tokens_per_s", "step_p50", "step_p95", "peak_memory_bytes")
#: on a terminal that has no room for all of them
_FEW = ("run", "state", "steps", "final_loss", "heldout_loss", "tokens_per_s", "step_p50")
_LABELS = {"heldout_loss": "held-out", "final_loss": "loss", "tokens_per_s": "tokens/s", "step_p50": "p50", "step_p95": "p95"}


@runs.callback()
def _runs() -> None:
    """The runs below ./runs."""


@runs.command()
def ls(
    root: Annotated[Path, typer.Argument(help="Folder that runs are looked for in.")] = Path("runs"),
    sort: Annotated[str, typer.Option("--sort", help="Column to sort by, best first: tokens_per_s, heldout_loss, ...")] = "created",
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="The other way round.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts, with every column.")] = False,
) -> None:
    """List runs, newest first, or by any of their figures. In a pipe tab-separated.

    \b
    Examples:
      mindrecipe runs ls
      mindrecipe runs ls --sort tokens_per_s
      mindrecipe runs ls --sort heldout_loss --json
    """
    if not root.is_dir():
        raise UserError(f"there is no folder {root}", mend="mindrecipe runs ls <folder of runs>; without run.root they go to ./runs")
    found = listing.rows(find_runs(root), sort=sort, reverse=reverse)
    for row in found:
        if row.fault is not None:
            stderr().print(f"unreadable: {row.fault}")
    if as_json:
        print(json.dumps(plain([row.values for row in found]), indent=2, allow_nan=False))
        return
    columns = list(dict.fromkeys([*_SHOWN, sort]))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        print("\t".join(columns))
        for row in found:
            print("\t".join("" if row.values[name] is None else str(row.values[name]) for name in columns))
        return
    if console.width < 110:
        columns = list(dict.fromkeys([*_FEW, *([] if sort == "created" else [sort])]))
    table = Table(box=None, padding=(0, 1 if console.width < 110 else 2, 0, 0))
    for name in columns:
        label = "run" if name == "run" else _LABELS.get(name, name)
        table.add_column(
            label.replace("peak_memory_bytes", "memory"),
            no_wrap=name not in _FOLDED,
            overflow="fold",
            justify="left" if name in _TEXT else "right",
        )
    for row in found:
        table.add_row(*(_cell(name, row.values[name]) for name in columns))
    console.print(table)


_FOLDED = ("run", "name", "overrides")  # letters of a figure never go, as those of a name may to the next line
_TEXT = ("run", "name", "state", "created", "overrides", "device", "config_hash")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "run":
        return Path(value).name
    if name in ("final_loss", "heldout_loss"):
        return text.loss(value)
    if name in ("step_p50", "step_p95"):
        return text.seconds(value)
    if name == "peak_memory_bytes":
        return text.size(value)
    if name == "config_hash":
        return str(value)[:8]
    return text.quantity(value) if isinstance(value, float) else str(value)
