"""mindrecipe ls: recipes and the options of each config group, with what each is for."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mindrecipe.config.keys import nearest_word
from mindrecipe.config.options import Option, describe, groups
from mindrecipe.errors import UserError


def ls(
    group: Annotated[str | None, typer.Argument(help="One group only, e.g. recipe, model, parallel.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """List recipes and the options of each config group.

    \b
    Examples:
      mindrecipe ls
      mindrecipe ls recipe
      mindrecipe ls --json
    """
    names = groups()
    if group is not None and group not in names:
        near = nearest_word(group, names, 1)
        raise UserError(f"there is no group {group!r}; there are {', '.join(names)}", mend=f"mindrecipe ls {near[0]}" if near else None)
    listed = {name: describe(name) for name in ([group] if group else names)}
    if as_json:
        print(json.dumps({name: [_plain(option) for option in found] for name, found in listed.items()}, indent=2))
        return
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        for name, found in listed.items():
            for option in found:
                print(f"{name}={option.name}\t{option.summary}")
        return
    for name, found in listed.items():
        table = Table(title=name, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2, 0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for option in found:
            table.add_row(option.name, option.summary)
        console.print(table)


def _plain(option: Option) -> dict[str, str]:
    return {"name": option.name, "path": str(option.path), "summary": option.summary, "header": option.header}
