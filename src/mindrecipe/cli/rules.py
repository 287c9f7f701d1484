"""mindrecipe rules: what is checked before a run starts, each rule with its reason, source and examples."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindrecipe.cli.console import SEVERITY_STYLES
from mindrecipe.config.keys import nearest_word
from mindrecipe.errors import UserError
from mindrecipe.rules import RULES, examples
from mindrecipe.rules.page import command, markdown, plain
from mindrecipe.rules.registry import OUTCOMES, Rule

_ACTIONS = ("ls", "show")


def rules(
    action: Annotated[str, typer.Argument(help="ls: all rules; show: one of them.")] = "ls",
    name: Annotated[str | None, typer.Argument(help="show: the id of the rule, e.g. mesh.heads.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="ls: the text of docs/rules.md.")] = False,
) -> None:
    """List the rules that `check` and `train` apply, or explain one: when it objects, why, how that is known, and the mend.

    \b
    Examples:
      mindrecipe rules ls
      mindrecipe rules show mesh.heads
      mindrecipe rules show mesh.heads --json
    """
    if action not in _ACTIONS:
        near = action if action in RULES else (nearest_word(action, _ACTIONS, 1) or ["ls"])[0]
        raise UserError(f"mindrecipe rules has no {action!r}", mend=f"mindrecipe rules {f'show {near}' if near in RULES else near}")
    if action == "show":
        _show(_rule(name), as_json)
    elif name is not None:
        raise UserError(f"mindrecipe rules ls takes no {name!r}", mend=f"mindrecipe rules show {name}")
    elif as_markdown:
        print(markdown(RULES.values()), end="")
    elif as_json:
        print(json.dumps([plain(rule) for rule in _in_order()], indent=2))
    else:
        _list()


def _in_order() -> list[Rule]:
    return sorted(RULES.values(), key=lambda rule: rule.name)


def _rule(name: str | None) -> Rule:
    if name is None:
        raise UserError("which rule? none was named", mend="mindrecipe rules show mesh.heads (`mindrecipe rules ls` lists them)")
    if name not in RULES:
        near = nearest_word(name, RULES, 1) or nearest_word(name.rpartition(".")[2], [rule.partition(".")[2] for rule in RULES], 1)
        whole = next((rule for rule in RULES if near and rule.endswith(near[0])), None)
        raise UserError(f"there is no rule {name!r}", mend=f"mindrecipe rules show {whole}" if whole else "mindrecipe rules ls")
    return RULES[name]


def _list() -> None:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        for rule in _in_order():
            print(f"{rule.name}\t{rule.severity}\t{rule.outcome}\t{rule.condition}")
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rule in _in_order():
        table.add_row(Text(rule.name, "cyan"), Text(rule.severity, SEVERITY_STYLES[rule.severity]), rule.condition)
    console.print(table)


def _show(rule: Rule, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plain(rule) | {"mend": _mend(rule)}, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(Text.assemble((rule.severity, SEVERITY_STYLES[rule.severity]), " ", (rule.name, "bold"), f"  {rule.condition}"))
    for label, text in (
        ("because", rule.why),
        ("so", OUTCOMES[rule.outcome]),
        ("reads", ", ".join(rule.reads) if rule.reads != ("*",) else "every knob"),
        ("source", rule.source),
        ("silence", f'rules.silence.{rule.name}="<reason>"' if rule.can_be_silenced else "not possible: the run would not get far"),
    ):
        console.print(Text.assemble((f"  {label + ':':<9}", "dim"), text))
    for label, shown in (("fails", rule.fails), ("passes", rule.passes)):
        for example in shown:
            console.print(Text.assemble((f"  {label + ':':<9}", "dim"), command(example)))
    console.print(Text.assemble(("  mend:    ", "dim"), _mend(rule) or "none", ("  (of the first that fails)", "dim")))


def _mend(rule: Rule) -> str | None:
    """What the rule says to write instead of its first example."""
    return next((problem.mend for problem in rule.check(examples.derived_of(rule.fails[0]))), None)
