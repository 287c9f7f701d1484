"""mindrecipe bench: two recipes measured in turns, with the verdict of `mindrecipe compare`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.cli.tables import print_comparison, write_output
from mindrecipe.errors import EXIT_OK
from mindrecipe.judge import bench as measuring
from mindrecipe.judge import thresholds
from mindrecipe.judge.compare import DESPITE, plain
from mindrecipe.judge.compare import compare as compare_measured
from mindrecipe.judge.rounds import together
from mindrecipe.judge.training import words_of


def bench(
    a: Annotated[str, typer.Argument(metavar="A", help="The reference: a recipe, or overrides in quotes.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="What is judged: the same.", show_default=False)],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Times that both are started anew.")] = 1,
    pairs: Annotated[int, typer.Option("--pairs", min=5, help="Pairs of turns of a round.")] = 40,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of one turn.")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for both runs; without it runs/bench/<time>.", show_default=False)
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option("--threshold", help="A tolerance, e.g. throughput=0.05.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Measure two recipes in turns on a machine that does other things too: one runs a few steps while the other is held.

    Two processes of the same recipe differ by a few per cent as long as they live: several rounds average that away.

    Exit codes as of `mindrecipe compare`: 0 same, 1 worse, 3 better, 4 not comparable, 2 bad input.

    \b
    Examples:
      mindrecipe bench tiny_cpu "+recipe=tiny_cpu dataset.prefetch_size=16" --pairs 10
      mindrecipe bench "+model=llama2_tiny amp=O0" "+model=llama2_tiny amp=O2" --pairs 20 --rounds 5
    """
    tolerances = thresholds.parse(threshold or ())
    folder = output or Path("runs") / "bench" / time.strftime("%Y%m%d-%H%M%S")
    console = stderr()
    compared, kept = [], []
    for number in range(1, rounds + 1):
        where = folder.absolute() if rounds == 1 else folder.absolute() / f"round{number}"
        found = measuring.run(words_of(a), words_of(b), where, pairs=pairs, steps=steps, told=console.print)
        compared.append(compare_measured(found.a, found.b, tolerances, despite=DESPITE, paired=True))
        kept.append({"a": found.a.as_dict(), "b": found.b.as_dict()})
    verdict = together(compared, tolerances)
    write_output(folder / "bench.json", json.dumps(plain({"rounds": kept, "comparison": verdict.as_dict()})) + "\n")
    if as_json:
        print(json.dumps(plain(verdict.as_dict()), indent=2))
    else:
        print_comparison(verdict, (a, b))
        console.print(f"the runs, and bench.json: {folder}")
    if verdict.exit_code != EXIT_OK:
        raise typer.Exit(verdict.exit_code)
