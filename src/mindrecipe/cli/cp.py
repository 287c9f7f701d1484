"""mindrecipe cp: copy a shipped recipe or option into ./recipes or ./conf, to edit it there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mindrecipe.config.options import Option, describe, groups, options
from mindrecipe.config.search_path import GROUP
from mindrecipe.config.suggest import suggest_option, suggest_word
from mindrecipe.errors import UserError


def cp(
    source: Annotated[str, typer.Argument(help="A recipe (NAME or recipe/NAME) or an option (GROUP/NAME).", show_default=False)],
    name: Annotated[str | None, typer.Argument(help="Name of the copy; without it the same.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Copy a recipe or an option to edit it. Yours in ./recipes and ./conf are found before the shipped ones.

    \b
    Examples:
      mindrecipe cp tiny_cpu my_tiny
      mindrecipe cp model/llama2_7b llama2_9b
    """
    option = _find(source)
    folder = Path("recipes") if option.group == GROUP else Path("conf") / option.group
    name = option.name if name is None else name.removesuffix(".yaml")
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)*", name, re.ASCII):
        raise UserError(
            f"{name!r} can't name an option: letters, digits, '_', '-' and '.', below {folder}",
            mend=f"mindrecipe cp {source} my_{source.rpartition('/')[2]}",
        )
    target = folder / f"{name}.yaml"
    if target.exists() and not force:
        raise UserError(f"{target} exists", mend=f"mindrecipe cp {source} <another name>, or --force")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_named(option.path.read_text(encoding="utf-8"), option, name), encoding="utf-8")
    except OSError as fault:
        raise UserError(f"can't write {target}: {fault.strerror}") from fault
    use = "+recipe" if option.group == GROUP else ("+" if option.group == "model" else "") + option.group
    print(f"{target}\nuse it as: train {use}={name}")


def _named(text: str, option: Option, name: str) -> str:
    """The text of the copy: a recipe names its runs after itself, and a copy under the old name would resume the original's."""
    if option.group != GROUP or name == option.name:
        return text
    return re.sub(r"^(run:\n(?:[ #].*\n|\n)*?  name: )\S+", lambda found: found[1] + name.replace("/", "_"), text, flags=re.MULTILINE)


def _find(source: str) -> Option:
    """The option that ``source`` names: GROUP/NAME, the name of a recipe, or the name of an option that one group alone has."""
    group, slash, rest = source.removesuffix(".yaml").replace("=", "/").lstrip("+").partition("/")
    if not slash or group not in groups():
        group, rest = GROUP, source.removesuffix(".yaml")
    for option in describe(group):
        if option.name == rest:
            return option
    near = [*suggest_word(source), *suggest_option(group, rest)]
    found = [choice.replace("=", "/", 1) for choice in near if choice.partition("=")[0] in groups()]
    raise UserError(
        f"there is no {group} {rest!r}; there is {', '.join(options(group))}",
        mend=" or ".join(f"mindrecipe cp {each}" for each in dict.fromkeys(found[:3])) or None,
    )
