"""mindrecipe explain: where a value comes from, and what it becomes."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from mindrecipe.config.keys import knobs
from mindrecipe.errors import UserError
from mindrecipe.explanation import Explanation, Step, allowed, differing, require_key, type_name
from mindrecipe.explanation import explain as explain_key
from mindrecipe.run import Run


def explain(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[KEY]... {overrides}...", help="Keys such as parallel.data_parallel, and overrides as for train."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Say where a value comes from (default, option, recipe, command line, derivation), what it may be, and what it lowers to.

    Without a key: everything that differs from the defaults, each with the place that decided it.

    \b
    Examples:
      mindrecipe explain optimizer.learning_rate +recipe=tiny_cpu
      mindrecipe explain parallel.data_parallel +recipe=llama2_70b_pretrain_64x64g launch.master_addr=10.0.0.1
      mindrecipe explain +recipe=tiny_cpu optimizer.learning_rate=1e-3
    """
    names = [word for word in words if "=" not in word and not word.startswith(("~", "-", "+"))]
    overrides = [word for word in words if word not in names]
    for name in names:
        require_key(name)
    if names and not overrides:
        _of_the_schema(names, as_json)
        return
    run = Run.from_overrides(overrides)
    if names:
        explained = [explain_key(name, run) for name in names]
        if as_json:
            print(json.dumps([_plain(each) for each in explained], indent=2, default=str))
            return
        for each in explained:
            _print(each)
        return
    found = differing(run)
    if as_json:
        print(json.dumps({key: {"value": value, **dataclasses.asdict(step)} for key, value, step in found}, indent=2, default=str))
        return
    console = _console()
    for key, value, step in found:
        console.print(Text.assemble((f"{key}={_text(value)}", "cyan"), (f"  {_place(step)}", "dim")))


def _of_the_schema(names: list[str], as_json: bool) -> None:
    """A key without a run: what it is."""
    unknown = [name for name in names if name not in knobs()]
    if unknown:
        raise UserError(
            f"{unknown[0]} is in a free mapping: it means something in a run only", mend=f"mindrecipe explain {unknown[0]} +recipe=…"
        )
    found = [knobs()[name] for name in names]
    facts = [
        Explanation(
            key=knob.key, value=knob.default, default=knob.default, type=type_name(knob.type), unit=knob.doc.unit, allowed=allowed(knob),
            doc=knob.doc.doc, lowers_to={}, history=[Step(source="default", where=None, written=_text(knob.default))],
        )
        for knob in found
    ]  # fmt: skip
    if as_json:
        print(json.dumps([_plain(each) for each in facts], indent=2, default=str))
        return
    for each in facts:
        _print(each)
    _console().print("\nwith overrides (+model=… or +recipe=…): where its value in that run comes from, and what it lowers to", style="dim")


def _print(it: Explanation) -> None:
    console = _console()
    console.print(Text.assemble((f"{it.key} = {_text(it.value)}", "bold")))
    console.print(f"  {it.doc}")
    kind = ", ".join(filter(None, [it.type, f"in {it.unit}" if it.unit else None, it.allowed]))
    console.print(Text.assemble(_label("type:", 0), kind))
    for place, step in enumerate(it.history):
        console.print(
            Text.assemble(("  history:   " if place == 0 else "             ", "dim"), f"{step.written}", (f"  {_place(step)}", "dim"))
        )
    for place, (key, value) in enumerate(it.lowers_to.items()):
        console.print(Text.assemble(("  lowers to: " if place == 0 else "             ", "dim"), f"{key}: {_text(value)}"))


def _label(name: str, place: int) -> tuple[str, str]:
    return f"  {name if place == 0 else '':<11}", "dim"


def _place(step: Step) -> str:
    return " ".join(filter(None, [step.source, step.where]))


def _plain(it: Explanation) -> dict[str, Any]:
    return dataclasses.asdict(it)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True, markup=False)
