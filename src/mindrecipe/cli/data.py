"""mindrecipe data check: the rows of a data set, read and checked before a device is."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import Annotated

import typer
from rich.console import Console

from mindrecipe.cli.console import print_finding
from mindrecipe.data import api
from mindrecipe.data.rowcheck import DataReport
from mindrecipe.datacheck import check_data, findings
from mindrecipe.errors import EXIT_FAILED, UserError
from mindrecipe.prepare import data_spec
from mindrecipe.run import Run

SAMPLE = 65536


def data(
    action: Annotated[str, typer.Argument(help="check", metavar="check", show_default=False)],
    overrides: Annotated[list[str] | None, typer.Argument(help="As for train, e.g. +recipe=tiny_cpu.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every row; without it a sample spread over all files.")] = False,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of each split to sample.")] = SAMPLE,
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="Processes that read; without it one a core.")] = None,
    build: Annotated[bool, typer.Option("--build", help="Build the data set first where it is not in the cache.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Read the data set a run names and check its rows: ids, labels, masks, lengths, copies, shards, held-out leaks.

    Exit code 0 when nothing is wrong (warnings allowed), 1 where rows would stop or falsify the training, 2 where it can't be read.

    \b
    Examples:
      mindrecipe data check +recipe=tiny_cpu --build
      mindrecipe data check +model=llama2_7b parallel=semi_auto dataset=mindrecord 'dataset.files=["/data/wiki.mindrecord*"]' --all
    """
    if action != "check":
        raise UserError(f"there is no `mindrecipe data {action}`", mend="mindrecipe data check +recipe=<recipe>")
    run = Run.from_overrides(overrides or [])
    run = run.prepare(lambda _: None) if build else _known(run)
    report = check_data(run.derived, most_rows=None if everything else rows, processes=processes)
    found = findings(report)
    if as_json:
        told = {"ok": not report.errors, "report": dataclasses.asdict(report), "findings": [dataclasses.asdict(each) for each in found]}
        print(json.dumps(told, indent=2))
    else:
        console = Console(highlight=False, soft_wrap=True, markup=False)
        for finding in found:
            print_finding(console, finding)
        _print(console, report)
    if report.errors:
        raise typer.Exit(EXIT_FAILED)


def _known(run: Run) -> Run:
    """The run with its data set as it is in the cache, or as ready files are."""
    if run.config.dataset.source == "native":
        return run.prepare()  # refuses it
    facts = api.lookup(data_spec(run.derived))
    if facts is None:
        words = shlex.join(run.provenance.overrides)
        raise UserError("the data set is not built yet", mend=f"mindrecipe data check --build {words}")
    return run.with_dataset(facts)


def _print(console: Console, it: DataReport) -> None:
    share = "all" if it.complete else f"{100 * it.rows_read / max(it.rows, 1):.1f} %, spread over all files"
    console.print(f"{it.rows_read:,} of {it.rows:,} rows read ({share}), {it.files} files")
    console.print(
        f"read at {it.tokens_per_second:,.0f} tokens/s by this check in {it.processes} process{'es' if it.processes > 1 else ''}"
        " (every id looked at; MindSpore's reader does less)"
    )
    most = max((count for _, _, count in it.lengths), default=0)
    for low, high, count in it.lengths:
        span = f"{low}" if low == high else f"{low}..{high}"
        console.print(f"  {span:>15} targets {count:>12,} rows  {'#' * max(1, round(30 * count / most))}")
    s = it.shards
    console.print(
        f"shards: {s.ranks}, each {s.rows_per_rank:,} rows and {s.steps_per_epoch:,} steps an epoch"
        + (f"; {s.read} of them is read here" if s.read < s.ranks else "; together complete")
        + (f"; {s.repeated} rows are read twice to make them equal" if s.repeated else "; disjoint")
        + (f"; the last {s.dropped} rows of each are dropped" if s.dropped else "")
    )
    console.print(f"{it.errors} kinds of errors" if it.errors else "ok")
