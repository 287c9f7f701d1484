"""mindrecipe simulate: MindSpore's dry run of a job's ranks on this machine, with neither NPU nor CANN."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mindrecipe.config.overrides import quoted
from mindrecipe.errors import EXIT_OK
from mindrecipe.execute import tell
from mindrecipe.measure.view import make_view
from mindrecipe.rules.this_host import of_the_run
from mindrecipe.run import Run
from mindrecipe.simulated import carry_out


def simulate(
    overrides: Annotated[
        list[str], typer.Argument(help="As for train, e.g. +model=llama2_7b parallel=semi_auto amp=O2.", show_default=False)
    ],
    ranks: Annotated[
        str | None,
        typer.Option("--ranks", help="first-of-each-stage (all that differ), all, or 0,4,8-11.", show_default="first-of-each-stage"),
    ] = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", help="Ranks at a time.", show_default="by this host's cores and free memory")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Simulate again what an earlier simulation has kept.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Also the slices each rank holds, and its collectives.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts, in place of the table.")] = False,
) -> None:
    """Compile a job's ranks for Ascend on this machine: what each holds, its peak of memory, what it sends; no device needed.

    Exit code 0 when every simulated rank fits max_device_memory, 1 when one does not or can't be simulated, 2 for what you can mend.
    Ranks that were simulated before are not simulated again, so that an interrupted command goes on where it was.

    \b
    Examples:
      mindrecipe simulate +model=llama2_7b parallel=semi_auto amp=O2
      mindrecipe simulate +recipe=llama2_13b_pretrain_16x64g --ranks first-of-each-stage --at-once 2
      mindrecipe simulate +model=llama2_tiny parallel=semi_auto parallel.model_parallel=2 --ranks 0,7 --details
    """
    run = Run.from_overrides([*overrides, *_launch(ranks, at_once, again)])
    view = make_view("plain", stream=sys.stderr) if as_json else make_view(run.config.monitor.console)
    try:
        tell(view, of_the_run(run.require_sound()))
        outcome = carry_out(run, view, details=details, as_json=as_json)
    finally:
        view.close()
    if outcome.exit_code != EXIT_OK:
        raise typer.Exit(outcome.exit_code)


def _launch(ranks: str | None, at_once: int | None, again: bool) -> list[str]:
    """The options as overrides: train launch=simulate takes the same."""
    words = ["launch=simulate"]
    if ranks is not None:
        words.append(f"launch.simulate_ranks={quoted(ranks)}")
    if at_once is not None:
        words.append(f"launch.simulate_at_once={at_once}")
    return [*words, "launch.simulate_again=true"] if again else words
