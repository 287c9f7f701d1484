"""mindrecipe ladder: one change at a time, kept when it helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.cli.experiment import AsJson, advise, finish, readable
from mindrecipe.cli.tables import make_folder
from mindrecipe.errors import UserError
from mindrecipe.judge import thresholds
from mindrecipe.judge.experiments import ladder as experiment
from mindrecipe.judge.experiments.cells import folder_of
from mindrecipe.judge.training import with_words


def ladder(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD...", help='As for train, and vary="amp=O0,O2; dataset.prefetch_size=1,16".', show_default=False),
    ],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Times that both sides of a rung are started anew.")] = 5,
    pairs: Annotated[int, typer.Option("--pairs", min=5, help="Pairs of turns of a round.")] = 12,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of one turn.")] = 5,
    threshold: Annotated[
        list[str] | None, typer.Option("--threshold", help="A tolerance, e.g. throughput=0.05.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; without it one that the same command finds again.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Climb from a baseline: each change is measured in turns with the best so far, and kept when something is better beyond noise
    and nothing is worse. The first value of each knob is the baseline's. The same command again goes on after the last whole round.

    Two processes of the same recipe differ by a few per cent as long as they live: a single round tells only large differences.

    \b
    Examples:
      mindrecipe ladder +recipe=tiny_cpu vary="amp=O0,O2" --rounds 1 --pairs 5 --steps 2
      mindrecipe ladder +model=llama2_tiny vary="amp=O0,O2; recompute=none,attention; dataset.prefetch_size=1,16"
    """
    asked = [word.partition("=")[2] for word in words if word.startswith("vary=")]
    if not asked:
        raise UserError("a ladder needs something to vary", mend='vary="amp=O0,O2; recompute=none,attention"')
    vary, shared = experiment.variables("; ".join(asked)), [word for word in words if not word.startswith("vary=")]
    best = experiment.baseline_of(shared, vary)
    trainings = readable([best, *(with_words(best, f"{key}={value}") for key, values in vary.items() for value in values[1:])])
    folder = output or folder_of("ladder", [*words, str(pairs), str(steps)])
    make_folder(folder)
    advise(trainings)
    baseline, rungs = experiment.climb(
        shared, vary, folder, tolerances=thresholds.parse(threshold or ()), rounds=rounds, pairs=pairs, steps=steps, told=stderr().print
    )
    finish(folder, "ladder", experiment.COLUMNS, experiment.table(baseline, rungs), as_json=as_json)
