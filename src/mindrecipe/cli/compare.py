"""mindrecipe compare: a run against a baseline or another run, with a verdict that a script can act on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.tables import print_comparison
from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.judge import thresholds
from mindrecipe.judge.baseline import DEFAULT_FILE, open_side
from mindrecipe.judge.compare import DESPITE
from mindrecipe.judge.compare import compare as compare_measured
from mindrecipe.measure.numbers import plain


def compare(
    a: Annotated[
        str,
        typer.Argument(metavar="A", help="The reference: a run, a baseline's name, FILE.jsonl or FILE.jsonl:NAME.", show_default=False),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="What is judged: the same.", show_default=False)],
    file: Annotated[Path, typer.Option("--file", help="The baseline file that names are looked up in.")] = DEFAULT_FILE,
    threshold: Annotated[
        list[str] | None,
        typer.Option("--threshold", help="A tolerance, e.g. throughput=0.05; over the baselines'.", show_default=False),
    ] = None,
    despite: Annotated[
        list[str] | None, typer.Option("--despite", help="Compare although this differs: hardware or data.", show_default=False)
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Judge only this metric; may be given several times.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Compare two runs or baselines: loss, throughput, step times and memory, each against a tolerance declared beforehand.

    Exit code 0 same, 1 worse, 3 better (an improvement that nobody can explain is as suspect), 4 not comparable, 2 bad input.

    \b
    Examples:
      mindrecipe compare baselines.jsonl last
      mindrecipe compare nightly last --threshold step_p95=0.2
      mindrecipe compare runs/tiny_cpu/20250101-120000-abc123 last --despite data --json
      mindrecipe compare nightly last --metric final_loss --metric memory
    """
    for word in despite or ():
        if word not in DESPITE:
            raise UserError(f"--despite {word}: only {' and '.join(DESPITE)} forbid a comparison", mend=f"--despite {DESPITE[0]}")
    for name in metric or ():
        thresholds.require(name, f"--metric {name}", "--metric {}")
    left, right = open_side(a, file), open_side(b, file)
    declared, said = thresholds.of_both(left.tolerances, right.tolerances)
    found = compare_measured(
        left.measured, right.measured, thresholds.parse(threshold or (), declared), despite=despite or (), only=metric or ()
    )
    found = replace(found, notes=[*found.notes, *([said] if said else [])])
    if as_json:
        print(json.dumps(plain(found.as_dict()), indent=2))
    else:
        print_comparison(found, (left.name, right.name))
    if found.exit_code != EXIT_OK:
        raise typer.Exit(found.exit_code)
