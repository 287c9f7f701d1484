"""mindrecipe drill: break a short run on purpose, and see that nothing is lost."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mindrecipe.cli.console import stderr
from mindrecipe.drill import FAULTS, Hit, Row
from mindrecipe.drill import drill as run_drill
from mindrecipe.errors import EXIT_FAILED, UserError
from mindrecipe.run import Run

_NAMES = ", ".join(FAULTS)
_TOGETHER = "worker+save+corrupt+launcher+sigterm"
_WIDTHS = (9, 13, 12, 14, 12, 9)


def drill(
    overrides: Annotated[list[str], typer.Argument(help="As for train, e.g. +recipe=tiny_cpu.", show_default=False)],
    faults: Annotated[str, typer.Option(help=f"Of {_NAMES}; joined by +: one run suffers them in turn.")] = ",".join((*FAULTS, _TOGETHER)),
    steps: Annotated[int, typer.Option(help="Steps of each run.", min=6)] = 24,
    every: Annotated[int, typer.Option(help="Steps between two checkpoints.", min=1)] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the moments.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Keep the runs here; without it they go.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Train a short stretch straight, then again with faults at random moments, and compare the losses bit for bit.

    \b
    worker    kill -9 of a rank           launcher  kill -9 of `train` itself
    save      kill -9 of a rank in the middle of writing a checkpoint ("in a write": whether it was caught there)
    sigterm   a scheduler's notice        corrupt   a byte of the newest checkpoint changed
    disk      its disk is full (a tmpfs: needs the right to mount, said where there is none)

    Of a run that suffers several its line has the longest times and the sum of the lost steps; a line for each fault follows.
    Exit code 0 when every run recovered and none differs, 1 otherwise.

    \b
    Examples:
      mindrecipe drill +recipe=tiny_cpu --faults worker,sigterm
      mindrecipe drill +recipe=tiny_cpu --faults worker+worker+save+launcher
      mindrecipe drill +recipe=tiny_cpu parallel=data launch.workers=2 --steps 40
    """
    asked = _asked(faults, steps, every)
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
    width = max(10, *(len(name) + 2 for name in asked))
    if not as_json:
        head = _line(width, "fault", "at step", "detected in", "lost steps", "recovered in", "in a write", "identical")
        console.print(head, style="bold")
    good = False
    try:
        for row in run_drill(overrides, place, faults=asked, steps=steps, every=every, seed=seed):
            rows.append(row)
            if not as_json:
                for line in _told(row, width):
                    console.print(line, style=None if row.good else "red")
                if row.problem:
                    console.print(f"  {row.problem}", style="red")
        if as_json:
            print(json.dumps([asdict(row) for row in rows], indent=2))
        good = all(row.good for row in rows)
    finally:  # also where it is stopped
        if folder is None and (good or not any(place.iterdir())):
            shutil.rmtree(place)
        else:
            (stderr() if as_json else console).print(f"runs: {place}")
    if not good:
        raise typer.Exit(EXIT_FAILED)


def _asked(faults: str, steps: int, every: int) -> list[str]:
    """What --faults names; UserError where it names nothing, or the run is too short for it."""
    asked = [name.strip() for name in faults.split(",") if name.strip()]
    unknown = [name for together in asked for name in together.split("+") if name not in FAULTS]
    if unknown or not asked:
        raise UserError(f"--faults {faults}: there is no fault {unknown[0] if unknown else ''!r}".rstrip(), mend=f"some of {_NAMES}")
    if steps < 3 * every:
        raise UserError(f"--steps {steps} with --every {every}: there must be three checkpoints", mend=f"--steps {3 * every}")
    return asked


def _told(row: Row, width: int) -> Iterator[str]:
    """The line of a run, and one for each of its faults where it has several."""
    if row.not_made is not None:
        yield f"{row.fault:<{width}}not made on this machine: {row.not_made}"
        return
    single = str(row.hits[0].at) if len(row.hits) == 1 else "-"
    yield _line(width, row.fault, single, *_figures(row.hits), "yes" if row.identical else "NO")
    for hit in row.hits if len(row.hits) > 1 else ():
        yield _line(width, f"  {hit.fault}", str(hit.at), *_figures((hit,)), "")


def _figures(hits: tuple[Hit, ...]) -> tuple[str, str, str, str]:
    """The cells of several faults together: detected in, lost steps, recovered in, in a write."""
    detected = [hit.detected for hit in hits if hit.detected is not None]
    recovered = [hit.recovered for hit in hits if hit.recovered is not None]
    inside = [bool(hit.unfinished) for hit in hits if hit.unfinished is not None]
    return (
        f"{max(detected):.1f} s" if detected else "-",
        str(sum(hit.lost for hit in hits)) if hits else "-",
        f"{max(recovered):.1f} s" if recovered else "-",
        ("yes" if all(inside) else "no") if inside else "-",
    )


def _line(width: int, fault: str, *cells: str) -> str:
    return (f"{fault:<{width}}" + "".join(f"{cell:<{size}}" for cell, size in zip(cells, _WIDTHS, strict=True))).rstrip()
