"""mindrecipe logs: what the ranks of a run have said, each line with its rank; -f follows them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.errors import UserError
from mindrecipe.launch.claim import holder
from mindrecipe.measure.tail import LineTail
from mindrecipe.runfiles import LOCK, RunFiles

_LOG = re.compile(r"rank_(\d+)\.log")
_LOOK_EVERY = 0.25


def logs(
    run: Annotated[Path, typer.Argument(help="A run directory, or a folder of runs: the newest.", show_default=False)],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
    rank: Annotated[int | None, typer.Option(help="Only this rank.", show_default=False)] = None,
    lines: Annotated[int | None, typer.Option("-n", "--lines", help="Only the last so many lines of each.", show_default=False)] = None,
) -> None:
    """Print the logs of a run's ranks, each line marked with its rank.

    \b
    Examples:
      mindrecipe logs runs
      mindrecipe logs runs/tiny_cpu -n 20 --rank 0
    """
    files = RunFiles(path=_newest(run))
    there = _ranks(files)
    if rank is not None and rank not in there and not follow:
        told = f"there are ranks {', '.join(map(str, there))}" if there else "no rank has a log yet"
        raise UserError(f"{files.path} has no log of rank {rank}: {told}", mend=f"--rank {there[0]}" if there else "-f waits for it")
    tails: dict[int, LineTail] = {}
    while True:
        living = holder(files.path) is not None  # asked before reading: what it wrote last is read after its end
        for number in [rank] if rank is not None else _ranks(files):
            known = number in tails
            new = tails.setdefault(number, LineTail(files.rank_log(number))).read()
            for line in new if known or lines is None else new[max(0, len(new) - lines) :]:
                print(f"rank {number}: {line}", flush=follow)
        if not (follow and living):
            return
        time.sleep(_LOOK_EVERY)


def _ranks(files: RunFiles) -> list[int]:
    """The ranks that have a log."""
    return sorted(int(found[1]) for path in files.logs.glob("rank_*.log") if (found := _LOG.fullmatch(path.name)))


def _newest(path: Path) -> Path:
    """The run directory itself, or the newest below it."""
    path = path.expanduser().absolute()
    runs = [path] if (path / LOCK).exists() else [lock.parent for lock in [*path.glob(f"*/{LOCK}"), *path.glob(f"*/*/{LOCK}")]]
    if not runs:
        raise UserError(f"{path} is no run directory, and there is none in it", mend="a folder that `train` made, e.g. runs")
    return max(runs, key=lambda run: (run / LOCK).stat().st_mtime)
