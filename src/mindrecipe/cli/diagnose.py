"""mindrecipe diagnose: what holds a run back, most costly first."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from mindrecipe.cli.tables import stdout
from mindrecipe.errors import EXIT_FAILED
from mindrecipe.judge.diagnosis import diagnose as find_causes
from mindrecipe.judge.recorded import open_run


def diagnose(
    run: Annotated[str, typer.Argument(metavar="RUN", help='A run directory, its name, or "last".', show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Name what holds a run back, most costly first, each with its evidence, its threshold and an override to try.

    Exit code 0 when there is nothing to say, 1 otherwise.

    \b
    Examples:
      mindrecipe diagnose last
      mindrecipe diagnose runs/tiny_cpu/20250101-120000-abc123 --json
    """
    recorded = open_run(run)
    found = find_causes(recorded)
    if as_json:
        print(json.dumps([each.as_dict() for each in found], indent=2))
    else:
        console = stdout()
        console.print(f"{recorded.title}: {recorded.summary.get('state', 'unfinished')}, {recorded.reached} steps")
        for each in found:
            console.print(Text.assemble((f"{each.cause}: ", "bold yellow" if each.cost < 0.9 else "bold red"), each.what))
            for name, text in (("seen", each.evidence), ("limit", each.threshold), ("try", each.mend)):
                if text:
                    console.print(Text.assemble((f"  {name + ':':<7}", "dim"), text))
        if not found:
            console.print("nothing holds it back")
    if found:
        raise typer.Exit(EXIT_FAILED)
