"""mindrecipe diff: two recipes, runs or mindformers YAMLs, compared in meaning."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mindrecipe.errors import EXIT_FAILED


def diff(
    left: Annotated[
        str, typer.Argument(metavar="A", help="A recipe, overrides in quotes, a run directory, or a YAML file.", show_default=False)
    ],
    right: Annotated[str, typer.Argument(metavar="B", help="The same.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Compare two of recipe, run directory and mindformers YAML, in any mix, by what they mean.

    Derived values, defaults, order, aliases and spelling do not count. Exit code 0 equal, 1 different, 2 bad input.

    \b
    Examples:
      mindrecipe diff tiny_cpu qwen3_tiny_cpu
      mindrecipe diff "+model=llama2_7b parallel=semi_auto amp=O2" llama2_7b_pretrain_8x64g
      mindrecipe diff runs/tiny_cpu/20250101-120000-abc123 tiny_cpu --json
    """
    from mindrecipe.bridge.contrast import contrast
    from mindrecipe.bridge.meaning import meaning_of

    found = contrast(meaning_of(left), meaning_of(right))
    if as_json:
        sides = [{"title": side.title, "kind": side.kind} for side in (found.left, found.right)]
        told = {
            "equal": found.equal,
            "a": sides[0],
            "b": sides[1],
            "effects": [_plain(change) for change in found.effects],
            "differences": [{"section": change.section, **_plain(change)} for change in found.changes],
            "unread": [_plain(change) for change in found.unread],
        }
        print(json.dumps(told, indent=2, default=str))
    else:
        _print(found)
    if not found.equal:
        raise typer.Exit(EXIT_FAILED)


def _plain(change: Any) -> dict[str, Any]:
    from mindrecipe.bridge.compare import MISSING
    from mindrecipe.bridge.notes import plain

    sides = {name: plain(value) for name, value in (("a", change.left), ("b", change.right)) if value is not MISSING}
    return {"key": change.key, **sides, **({"unit": change.unit} if change.unit else {})}


def _print(found: Any) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True, markup=False)
    for sign, style, side in (("-", "red", found.left), ("+", "green", found.right)):
        console.print(Text(f"{sign} {side.title} ({side.kind})", f"bold {style}"))
    if found.equal:
        console.print("equal in meaning")
    section = None
    for change in [*found.effects, *found.changes]:
        heading = "in effect" if change in found.effects else change.section
        if heading != section:
            section = heading
            console.print(Text(f"{section}", "bold"))
        name = change.key if heading == "in effect" else change.key.partition(".")[2] or change.key
        unit = f" {change.unit}" if change.unit else ""
        console.print(
            Text.assemble(f"  {name}: ", (f"{_shown(change.left)}", "red"), " -> ", (f"{_shown(change.right)}", "green"), (unit, "dim"))
        )

    if found.unread:
        # whole sections by their first names: an evaluation data set has thirty keys
        names = dict.fromkeys(".".join(change.key.split(".")[:3]) for change in found.unread)
        console.print(Text(f"never read in training, so not compared: {', '.join(names)}", "dim"))


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:,}"
    return json.dumps(value) if value is None or isinstance(value, bool | list | dict) else str(value)
