"""mindrecipe dump: recipes resolved, so that a change of conf/ can be reviewed with diff."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from mindrecipe.errors import UserError


def dump(
    recipes: Annotated[list[str] | None, typer.Argument(help="Names of recipes.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every shipped recipe.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write NAME.yaml files to; without it to the terminal.", show_default=False),
    ] = None,
) -> None:
    """Write recipes resolved, with what was derived: the same bytes on every machine, so that two dumps can be compared.

    \b
    Examples:
      mindrecipe dump --all -o before
      mindrecipe dump tiny_cpu
      mindrecipe dump --all -o after && diff -r before after
    """
    names = [*(recipes or []), *(shipped_recipes() if everything else [])]
    if not names:
        raise UserError("which recipe?", mend="mindrecipe dump --all, or the names that `mindrecipe ls recipe` lists")
    texts = {name: resolved(name) for name in dict.fromkeys(names)}
    if output is None:
        for name, text in texts.items():
            print(f"--- # {name}\n{text}", end="")
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            target = output / f"{name}.yaml"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UserError(f"can't write to {output}: {fault.strerror or fault}") from fault
    print(f"{len(texts)} recipes written to {output}")


def shipped_recipes() -> list[str]:
    """Names of the recipes that come with mindrecipe."""
    from mindrecipe.paths import shipped

    folder = shipped("recipes")
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def resolved(name: str) -> str:
    """One recipe, every null filled that can be without looking at this machine or at data, and what is derived."""
    from mindrecipe.bridge.lowered import NOWHERE
    from mindrecipe.freeze import derived_facts, to_yaml
    from mindrecipe.run import Run

    run = Run.from_overrides([f"+recipe={name}"], machine=NOWHERE)
    config: dict[str, Any] = dataclasses.asdict(run.derived.config)
    return to_yaml({"options": run.choices, "config": config, "derived": derived_facts(run.derived, None)})
