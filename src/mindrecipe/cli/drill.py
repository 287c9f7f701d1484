"""mindrecipe drill: break a short run on purpose, and see that nothing is lost."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mindrecipe.drill import FAULTS, Row
from mindrecipe.drill import drill as run_drill
from mindrecipe.errors import EXIT_FAILED, UserError
from mindrecipe.run import Run

_NAMES = ", ".join(FAULTS)


def drill(
    overrides: Annotated[list[str], typer.Argument(help="As for train, e.g. +recipe=tiny_cpu.", show_default=False)],
    faults: Annotated[str, typer.Option(help=f"Faults, in this order, of {_NAMES}.")] = ",".join(FAULTS),
    steps: Annotated[int, typer.Option(help="Steps of each run.", min=6)] = 24,
    every: Annotated[int, typer.Option(help="Steps between two checkpoints.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the moments.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Keep the runs here; without it they go.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Train a short stretch straight, then again with faults at random moments, and compare the losses bit for bit.

    \b
    worker    kill -9 of a rank             launcher  kill -9 of `train` itself
    save      kill -9 of a rank that saves  corrupt   a byte of the newest checkpoint changed
    sigterm   a scheduler's notice        disk      its disk is full (a tmpfs: needs the right to mount, said where there is none)

    Exit code 0 when every run recovered and none differs, 1 otherwise.

    \b
    Examples:
      mindrecipe drill +recipe=tiny_cpu --faults worker,sigterm
      mindrecipe drill +recipe=tiny_cpu parallel=data launch.workers=2 --steps 40
    """
    asked = [name.strip() for name in faults.split(",") if name.strip()]
    unknown = [name for name in asked if name not in FAULTS]
    if unknown or not asked:
        raise UserError(f"--faults {faults}: there is no fault {unknown[0] if unknown else ''!r}".rstrip(), mend=f"some of {_NAMES}")
    if steps < 3 * every:
        raise UserError(f"--steps {steps} with --every {every}: there must be three checkpoints", mend=f"--steps {3 * every}")
    Run.from_overrides(overrides).require_sound()
    place = folder.expanduser().absolute() if folder is not None else Path(tempfile.mkdtemp(prefix="mindrecipe-drill-"))
    if folder is not None and place.exists():
        raise UserError(f"{place} exists", mend="--folder <a new one>")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UserError(f"can't make {place}: {fault.strerror}", mend="--folder <a new folder of yours>") from fault
    console = Console(highlight=False, soft_wrap=True, markup=False)
    rows: list[Row] = []
    if not as_json:
        console.print(_line("fault", "at step", "detected in", "lost steps", "recovered in", "identical"), style="bold")
    for row in run_drill(overrides, place, faults=asked, steps=steps, every=every, seed=seed):
        rows.append(row)
        if not as_json:
            console.print(_told(row), style=None if row.good else "red")
            if row.problem:
                console.print(f"  {row.problem}", style="red")
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    good = all(row.good for row in rows)
    if folder is None and good:
        shutil.rmtree(place)
    elif not as_json:
        console.print(f"runs: {place}")
    if not good:
        raise typer.Exit(EXIT_FAILED)


def _told(row: Row) -> str:
    if row.not_made is not None:
        return f"{row.fault:<10}not made on this machine: {row.not_made}"
    return _line(
        row.fault, str(row.at), _seconds(row.detected), "-" if row.lost is None else str(row.lost), _seconds(row.recovered),
        "yes" if row.identical else "NO",
    )  # fmt: skip


def _line(*cells: str) -> str:
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, (10, 9, 13, 12, 14, 9), strict=True)).rstrip()


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
