"""mindrecipe scale: what more ranks bring."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.cli.experiment import AsJson, finish, readable
from mindrecipe.errors import UserError
from mindrecipe.judge.experiments import scale as experiment
from mindrecipe.judge.experiments.cells import folder_of
from mindrecipe.judge.training import key_of

#: knobs that differ from one training to the next, and how they are asked for
_SET = {"dataset.batch_size": "--batch", "launch.workers": "workers=1,2"}


def scale(
    words: Annotated[
        list[str], typer.Argument(metavar="WORD...", help="As for train; workers=1,2 are the numbers of ranks.", show_default=False)
    ],
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences one rank computes at once.")] = 8,
    steps: Annotated[int, typer.Option("--steps", min=3, help="Measured steps of a run.")] = 20,
    warm_up: Annotated[int, typer.Option("--warm-up", min=2, help="Steps before those.")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; without it one that the same command finds again.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure data parallelism: strong scaling (one batch divided) and weak scaling (a batch for each rank), against the ideal.

    On one machine ranks share its cores: there the ideal is out of reach.

    \b
    Examples:
      mindrecipe scale +recipe=tiny_cpu workers=1,2 --steps 5 --warm-up 2
    """
    folder = output or folder_of("scale", [*words, str(batch), str(steps), str(warm_up)])
    asked = [word for word in words if word.startswith("workers=")]
    try:
        counts = [int(number) for number in asked[0].partition("=")[2].split(",")] if asked else [1, 2]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UserError(f"{asked[0]}: numbers of ranks are asked for", mend="workers=1,2")
    if len(asked) > 1:
        raise UserError(f"{asked[1]}: workers are named twice", mend=asked[0])
    shared = [word for word in words if not word.startswith("workers=")]
    for word in shared:
        if (mend := _SET.get(key_of(word) or "")) is not None:
            raise UserError(f"{word} has no effect: each training has its own", mend=mend)
    readable([shared])
    points = experiment.measure(shared, folder, workers=counts, batch=batch, warm_up=warm_up, steps=steps, told=stderr().print)
    columns, rows = experiment.table(points)
    finish(folder, "scaling", columns, rows, as_json=as_json)
