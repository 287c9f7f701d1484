"""mindrecipe show: a run resolved, with everything that was derived; without overrides, every knob there is."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindrecipe.cli import save_interval
from mindrecipe.config.keys import knobs
from mindrecipe.derive import Derived
from mindrecipe.derive.precision import LEVELS, row_of
from mindrecipe.freeze import derived_facts, to_yaml
from mindrecipe.run import Run


def show(
    overrides: Annotated[list[str] | None, typer.Argument(help="As for train, e.g. +recipe=tiny_cpu amp=O2.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Print a run resolved: every knob, what was derived from them, and the amp table. Without overrides: all knobs.

    \b
    Examples:
      mindrecipe show
      mindrecipe show +recipe=tiny_cpu
      mindrecipe show +model=llama2_7b parallel=semi_auto amp=O2 --json
    """
    if not overrides:
        _show_knobs(as_json)
        return
    run = Run.from_overrides(overrides)
    config = dataclasses.asdict(run.derived.config)
    facts = derived_facts(run.derived, None)
    if as_json:
        saving = save_interval.plain(run.derived)
        print(json.dumps({"config": config, "derived": facts, "options": run.choices, "save_interval": saving}, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"# options: {', '.join(f'{group}={option}' for group, option in run.choices.items())}", style="dim")
    if run.derived.device_reason:
        console.print(f"# device=auto is {run.derived.hardware.title}: {run.derived.device_reason}", style="dim")
    _print_yaml(console, to_yaml(config))
    console.print("\n# derived, never written by hand", style="dim")
    _print_yaml(console, to_yaml({"derived": facts}))
    _print_amp(console, run.derived)
    console.print(save_interval.told(run.derived))


def _print_yaml(console: Console, text: str) -> None:
    if console.is_terminal:
        from rich.syntax import Syntax

        console.print(Syntax(text.rstrip(), "yaml", background_color="default", word_wrap=True))
    else:
        print(text.rstrip())


def _print_amp(console: Console, derived: Derived) -> None:
    amp, kinds = derived.config.amp, list(LEVELS["O0"])
    rows = {level: list(row_of(level, amp.dtype, derived.hardware, derived.family).values()) for level in LEVELS}
    rows = {f"{level}{' *' if level == amp.level else ''}": row for level, row in rows.items()}
    rows["this run"] = [str(getattr(amp, f"{kind}_dtype")) for kind in kinds]
    title = f"\namp levels on {derived.hardware.title} with {amp.dtype}, {derived.family.name}"
    if console.is_terminal and console.width >= 70:
        table = Table(title=title, title_justify="left", title_style="bold")
        for column in ("level", *kinds):
            table.add_column(column, no_wrap=True)
        for name, row in rows.items():
            table.add_row(name, *row, style="green" if name == "this run" else "bold" if "*" in name else None)
        console.print(table)
    else:
        console.print(title)
        for name, row in rows.items():
            console.print(f"  {name}: {', '.join(f'{kind} {dtype}' for kind, dtype in zip(kinds, row, strict=True))}")
    console.print(
        f"loss scale: {derived.loss_scale.kind}"
        + (f", starts at {derived.loss_scale.value:g}" if derived.loss_scale.kind != "none" else "")
    )


def _show_knobs(as_json: bool) -> None:
    if as_json:
        print(json.dumps({key: _knob(knob) for key, knob in knobs().items()}, indent=2, default=str))
        return
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        for key, knob in knobs().items():
            print(f"{key}={_value(knob.default)}\t{knob.doc.doc}")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("key", style="cyan", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for key, knob in knobs().items():
        extras = [f"[{knob.doc.unit}]" if knob.doc.unit else "", f"({' | '.join(knob.doc.choices)})" if knob.doc.choices else ""]
        told = " ".join(filter(None, [knob.doc.doc, *extras]))
        if console.width < 100:  # three columns would leave no room for the third
            console.print(Text.assemble((f"{key}={_value(knob.default)}", "cyan"), f"\n  {told}"))
        else:
            table.add_row(key, _value(knob.default), told)
    if table.row_count:
        console.print(table)


def _knob(knob: Any) -> dict[str, Any]:
    return {
        "type": getattr(knob.type, "__name__", None) if isinstance(knob.type, type) else str(knob.type),
        "default": knob.default,
        "doc": knob.doc.doc,
        "unit": knob.doc.unit,
        "choices": list(knob.doc.choices) or None,
    }


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
