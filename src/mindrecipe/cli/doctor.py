"""mindrecipe doctor: is this machine fit to train?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from mindrecipe.cli.tables import stdout
from mindrecipe.derive.machine import this_machine
from mindrecipe.errors import EXIT_FAILED, UserError
from mindrecipe.judge.doctor import collectives
from mindrecipe.judge.doctor.checks import examine
from mindrecipe.judge.doctor.line import Line
from mindrecipe.measure.view import text

_STYLES = {"ok": "green", "warning": "yellow", "fault": "bold red"}


def doctor(
    folder: Annotated[Path, typer.Argument(help="Where runs will be written: the disk that is looked at.")] = Path("runs"),
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="Also measure an all-reduce over so many ranks of this host.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Look at this machine: versions, devices, memory, disk, cores, ports, clock; with --ranks also the bandwidth between ranks.

    Exit code 0 when there is no fault (warnings allowed), 1 otherwise.

    \b
    Examples:
      mindrecipe doctor
      mindrecipe doctor --ranks 2
    """
    lines = examine(folder)
    if ranks > 1:
        lines += _all_reduce(ranks)
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
    else:
        console = stdout()
        for line in lines:
            console.print(Text.assemble((f"{line.level:<8}", _STYLES[line.level]), f"{line.what:<12}", line.told))
            if line.mend:
                console.print(Text.assemble(f"{'':<8}", ("mend:       ", "dim"), line.mend))
    if any(line.level == "fault" for line in lines):
        raise typer.Exit(EXIT_FAILED)


def _all_reduce(ranks: int) -> list[Line]:
    target = "Ascend" if this_machine().npu_count else "CPU"
    try:
        found = collectives.sweep(ranks, target)
    except UserError as fault:
        return [Line(what="all-reduce", level="fault", told=fault.what, mend=fault.mend)]
    return [
        Line(what="all-reduce", level="ok", told=f"{text.size(each.size):>8}: {text.seconds(each.seconds)}, {text.size(int(each.bus))}/s")
        for each in found
    ]
