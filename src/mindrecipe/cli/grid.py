"""mindrecipe grid: what every combination of a few values costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from mindrecipe.cli.console import stderr
from mindrecipe.cli.experiment import AsJson, finish, readable
from mindrecipe.judge.experiments import grid as experiment
from mindrecipe.judge.experiments.cells import folder_of
from mindrecipe.judge.report import svg

_SHADES = ("on dark_green", "on green4", "on dark_goldenrod", "on dark_orange3", "on red3")


def grid(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD...", help="As for train; a knob with several values is an axis of the grid.", show_default=False),
    ],
    steps: Annotated[int, typer.Option("--steps", min=3, help="Measured steps of a cell.")] = 20,
    warm_up: Annotated[int, typer.Option("--warm-up", min=2, help="Steps before those.")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; without it one that the same command finds again.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a grid of shapes, each cell a training of its own. The same command again goes on where it was stopped.

    batch_size, seq_length and dtype are short for dataset.batch_size, model.seq_length and amp; any knob may be an axis.

    \b
    Examples:
      mindrecipe grid +recipe=tiny_cpu batch_size=1,2 --steps 5 --warm-up 2
      mindrecipe grid +model=llama2_tiny batch_size=1,2,4 seq_length=128,256,512 dtype=float32,float16
    """
    readable(experiment.each_value(*experiment.trainings_of(words)))
    folder = output or folder_of("grid", [*words, str(steps), str(warm_up)])
    found = experiment.measure(words, folder, warm_up=warm_up, steps=steps, told=stderr().print)
    maps = experiment.maps(found)
    names, across = list(found.axes), list(found.axes.values())[-1]
    if not as_json:
        _print_maps(maps, [f"{names[-1]}=", *across])
    columns, rows = experiment.table(found)
    jumps = [str(jump) for jump in experiment.transitions(found)]
    drawings = {title: svg.heat_map(rows_of, unit="us a token", columns=across) for title, rows_of in maps.items()}
    finish(folder, "grid", columns, rows, as_json=as_json, drawings=drawings, notes=jumps)


def _print_maps(maps: dict[str, dict[str, list[float | None]]], head: list[str]) -> None:
    """Heat maps, on a terminal only: a pipe has the table."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        return
    known = [value for rows in maps.values() for row in rows.values() for value in row if value is not None]
    if not known:
        return
    low, span = min(known), (max(known) - min(known)) or 1.0
    for title, rows in maps.items():
        console.print(Text(title, "bold"))
        width = max(map(len, [head[0], *rows]))
        console.print(Text(f"{head[0]:>{width}} " + "".join(f"{name:^10}" for name in head[1:]), "dim"))
        for name, row in rows.items():
            cells = Text(f"{name:>{width}} ")
            for value in row:
                shade = "" if value is None else _SHADES[min(len(_SHADES) - 1, int((value - low) / span * len(_SHADES)))]
                cells.append(f"{'-' if value is None else f'{value:.1f}':^10}", shade)
            console.print(cells)
