"""mindrecipe evaluate: a run's weights judged in a fresh process."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.cli.tables import stdout
from mindrecipe.judge import evaluate as judging
from mindrecipe.judge.recorded import open_run
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.view import text


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help='A run directory, its name, or "last".', show_default=False)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATASET...]", help="Other data, e.g. dataset=text dataset.files=[a.txt].", show_default=False),
    ] = None,
    checkpoint: Annotated[
        int | None, typer.Option("--checkpoint", help="Step of the checkpoint; without it the last.", show_default=False)
    ] = None,
    passes: Annotated[int, typer.Option("--passes", min=1, help="Forward passes that are timed.")] = judging.PASSES,
    max_batches: Annotated[
        int | None, typer.Option("--max-batches", min=1, help="Batches at the most; without it all.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Evaluate a checkpoint on held-out text: everything is built anew, in a process that has trained nothing.

    Writes RUN/evaluations/<time>/evaluation.json: loss and perplexity, latency of a forward pass, throughput, resources.

    \b
    Examples:
      mindrecipe evaluate last
      mindrecipe evaluate last --checkpoint 100 --passes 200
      mindrecipe evaluate last dataset=text 'dataset.files=[a.txt]' dataset.heldout_fraction=0.9
    """
    found = judging.evaluate(
        open_run(run), step=checkpoint, overrides=overrides or (), passes=passes, max_batches=max_batches, told=stderr().print
    )
    if as_json:
        print(json.dumps(plain(found.as_dict()), indent=2, allow_nan=False))
        return
    console = stdout()
    latency = ", ".join(f"{name} {text.seconds(value)}" for name, value in found.latency.items() if value is not None)
    for name, value in (
        ("accuracy", f"loss {text.loss(found.loss)}, perplexity {text.quantity(found.perplexity)}, {text.quantity(found.tokens)} tokens"),
        ("latency", f"{latency} ({found.passes} passes of {found.batch_size} rows; compiled in {text.seconds(found.compile_time)})"),
        ("throughput", f"{text.quantity(found.tokens_per_s)} tokens/s over a whole pass, reading included"),
        ("resources", f"peak {text.size(found.memory_bytes)}, {found.cores:.2f} cores"),
    ):
        console.print(f"{name:<11}{value}")
