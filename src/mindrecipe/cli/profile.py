"""mindrecipe profile: what MindSpore's profiler recorded of a run, summed up."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from mindrecipe.cli.tables import print_table, stdout
from mindrecipe.errors import UserError
from mindrecipe.judge.profile import Profile, profiles, told
from mindrecipe.judge.profile.files import folders
from mindrecipe.judge.recorded import open_run


def profile(
    run: Annotated[str, typer.Argument(metavar="RUN", help='A run directory, its name, or "last".', show_default=False)],
    rank: Annotated[int | None, typer.Option(help="This rank; without it the first that was profiled.", show_default=False)] = None,
    top: Annotated[int, typer.Option(help="Lines of each table.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts, all profiled ranks.")] = False,
) -> None:
    """Sum up a profile: top operators, share by scope, steps and gaps, memory, and on Ascend communication by link.

    Profile with `train ... profile=steps`; `mindrecipe report` shows the same on its page.

    \b
    Examples:
      mindrecipe profile last
      mindrecipe profile last --rank 3 --top 20
    """
    recorded = open_run(run)
    known = folders(recorded.path)
    if not known:
        raise UserError(f"{recorded.path} has no profile", mend="train again with profile=steps")
    if rank is not None and rank not in known:
        raise UserError(f"rank {rank} was not profiled: {', '.join(map(str, known))} were", mend=f"--rank {next(iter(known))}")
    if as_json:
        print(json.dumps([each.as_dict() for each in profiles(recorded, rank)], indent=2))
        return
    shown = next(iter(known)) if rank is None else rank
    (found,) = profiles(recorded, shown)
    _show(found, top, others=[each for each in known if each != shown])


def _show(found: Profile, top: int, others: list[int]) -> None:
    console = stdout()
    more = f" (also profiled: {', '.join(map(str, others))})" if others else ""
    console.print(Text.assemble(("rank ", "bold"), str(found.rank), more))
    for name, value in told.figures(found):
        console.print(Text.assemble((f"  {name:<26}", "dim"), value))
    for columns, rows in told.tables(found, top):
        if rows:
            console.print()
            print_table(columns, rows)
