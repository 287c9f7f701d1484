"""mindrecipe export: the native mindformers configuration of a run, for stock mindformers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.cli.console import stderr
from mindrecipe.errors import UserError
from mindrecipe.freeze import to_yaml
from mindrecipe.rules.this_host import of_the_run
from mindrecipe.run import Run


def export(
    overrides: Annotated[
        list[str], typer.Argument(help="As for train, e.g. +model=llama2_7b parallel=semi_auto amp=O2.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; without it to the terminal.", show_default=False)
    ] = None,
    form: Annotated[str, typer.Option("--format", help="yaml or json.")] = "yaml",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write the native mindformers YAML of a run: it starts with stock mindformers, without mindrecipe.

    \b
    Examples:
      mindrecipe export +model=llama2_7b parallel=semi_auto amp=O2
      mindrecipe export +recipe=llama2_13b_pretrain_16x64g -o llama2_13b.yaml
      mindrecipe export +recipe=tiny_cpu --format json
    """
    if form not in ("yaml", "json"):
        raise UserError(f"--format {form} is not yaml or json", mend="--format yaml")
    run = Run.from_overrides(overrides)
    # an import must give its original again, whatever is wrong with that; it is told all the same
    findings = run.check() if run.config.run.imported_from else run.require_sound()
    native = run.lower()
    text = json.dumps(native, indent=2) + "\n" if form == "json" else _header(run) + to_yaml(native)
    if output is None:
        print(text, end="")
    elif output.exists() and not force:
        raise UserError(f"{output} exists", mend="another name, or --force")
    else:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise UserError(f"can't write {output}: {fault.strerror}") from fault
    for finding in of_the_run(findings):
        stderr().print(f"{finding.severity}: {finding.what}")
    if run.derived.dataset is None and run.config.dataset.source != "mindrecord":
        stderr().print(
            "note: train_dataset.data_loader.dataset_files names MindRecords that are to be made: dataset=mindrecord takes ready ones"
        )


def _header(run: Run) -> str:
    words = shlex.join(run.provenance.overrides)
    options = ", ".join(f"{group}={option}" for group, option in run.choices.items() if option not in ("None", None))
    return f"# mindformers 1.9.0 configuration, written by: mindrecipe export {words}\n# options: {options}\n"
