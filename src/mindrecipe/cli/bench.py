"""mindrecipe bench: two recipes measured in turns, with the verdict of `mindrecipe compare`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.cli.experiment import advise, readable
from mindrecipe.cli.tables import make_folder, print_comparison, write_output
from mindrecipe.errors import EXIT_OK
from mindrecipe.judge import bench as measuring
from mindrecipe.judge import thresholds
from mindrecipe.judge.compare import DESPITE
from mindrecipe.judge.compare import compare as compare_measured
from mindrecipe.judge.rounds import together
from mindrecipe.judge.training import words_of
from mindrecipe.measure.numbers import plain


def bench(
    a: Annotated[str, typer.Argument(metavar="A", help="The reference: a recipe, or overrides in quotes.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="What is judged: the same.", show_default=False)],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Times that both are started anew.")] = 1,
    pairs: Annotated[int, typer.Option("--pairs", min=5, help="Pairs of turns of a round.")] = 40,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of one turn.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the runs, new or of the same command that was stopped; without it runs/bench/<time>.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option("--threshold", help="A tolerance, e.g. throughput=0.05.", show_default=False)
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Judge only this metric; may be given several times.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Measure two recipes in turns on a machine that does other things too: one runs a few steps while the other is held.

    Two processes of the same recipe differ by a few per cent as long as they live: several rounds average that away.

    Exit codes as of `mindrecipe compare`: 0 same, 1 worse, 3 better, 4 not comparable, 2 bad input.

    \b
    Examples:
      mindrecipe bench tiny_cpu "+recipe=tiny_cpu dataset.prefetch_size=16" --pairs 10
      mindrecipe bench "+model=llama2_tiny amp=O0" "+model=llama2_tiny amp=O2" --pairs 20 --rounds 8
    """
    tolerances = thresholds.parse(threshold or ())
    for name in metric or ():
        thresholds.require(name, f"--metric {name}", "--metric {}")
    sides = readable([words_of(a), words_of(b)])
    folder = output or Path("runs") / "bench" / time.strftime("%Y%m%d-%H%M%S")
    console = stderr()
    make_folder(folder)
    if rounds > 1:
        console.print(f"with -o {folder} the same command goes on where it was stopped")
    advise(sides)
    found = measuring.rounds(words_of(a), words_of(b), folder, count=rounds, pairs=pairs, steps=steps, told=console.print)
    verdict = together(
        [compare_measured(each.a, each.b, tolerances, despite=DESPITE, only=metric or (), paired=True) for each in found], tolerances
    )
    kept = {"rounds": [each.as_dict() for each in found], "comparison": verdict.as_dict()}
    write_output(folder / "bench.json", json.dumps(plain(kept)) + "\n")
    if as_json:
        print(json.dumps(plain(verdict.as_dict()), indent=2))
    else:
        print_comparison(verdict, (a, b))
        console.print(f"the runs, and bench.json: {folder}")
    if verdict.exit_code != EXIT_OK:
        raise typer.Exit(verdict.exit_code)
