"""mindrecipe check: everything that can be known before a run starts, without starting it."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.console import Console

from mindrecipe.cli.console import STRICT, print_finding
from mindrecipe.config.findings import Finding
from mindrecipe.errors import EXIT_USAGE, UserError, UserErrors
from mindrecipe.lower.residue import passed_through
from mindrecipe.run import Run


def check(
    overrides: Annotated[list[str], typer.Argument(help="As for train, e.g. +recipe=tiny_cpu amp=O2.", show_default=False)],
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors (rules.strict=true).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Check a run without running it: keys, types, mesh, precision, memory, schedule, data and checkpoint settings.

    Exit code 0 when nothing is wrong (warnings allowed, but for --strict), 2 otherwise.

    \b
    Examples:
      mindrecipe check +recipe=tiny_cpu
      mindrecipe check +model=llama2_7b parallel=semi_auto amp=O2
      mindrecipe check +model=llama2_7b parallel=semi_auto parallel.model_parallel=8 --json
      mindrecipe check +recipe=tiny_cpu checkpoint.save_steps=500 --strict
    """
    try:
        run = Run.from_overrides([*overrides, *([STRICT] if strict else [])])
    except UserError as fault:
        if as_json:
            faults = fault.faults if isinstance(fault, UserErrors) else [fault]
            found = [
                Finding(rule=each.rule or "config", severity="error", what=each.what, where=each.where, mend=each.mend)
                for each in faults
                if each.severity == "error"
            ]
            print(json.dumps({"ok": False, "findings": [dataclasses.asdict(finding) for finding in found]}, indent=2))
            raise typer.Exit(EXIT_USAGE) from None
        raise
    findings = run.check()
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        print(json.dumps({"ok": not errors, "findings": [dataclasses.asdict(finding) for finding in findings]}, indent=2))
    else:
        console = Console(highlight=False, soft_wrap=True, markup=False)
        for finding in findings:
            print_finding(console, finding)
        passed = passed_through(run.config.native)
        if passed:
            console.print(passed, style="dim")
        console.print(_verdict(run, findings, errors))
    if errors:
        raise typer.Exit(EXIT_USAGE)


def _verdict(run: Run, findings: list[Finding], errors: int) -> str:
    if errors:
        return f"{errors} error{'s' if errors > 1 else ''}: this run would not start"
    derived = run.derived
    steps = f", {derived.total_steps} steps" if derived.total_steps else ""
    size = f"{derived.parameters / 1e6:,.1f} M parameters" if derived.parameters else "of an unknown number of parameters"
    silenced = sum(finding.severity == "silenced" for finding in findings)
    told = [f"{len(findings) - silenced} to look at above" * (len(findings) > silenced), f"{silenced} silenced" * (silenced > 0)]
    notes = f" ({', '.join(filter(None, told))})" if findings else ""
    return (
        f"ok{notes}: {derived.config.run.name}, {size}, "
        f"{derived.device_num} x {derived.hardware.title}, "
        f"global batch {derived.global_batch_size} x {derived.config.model.seq_length} tokens{steps}"
    )
