"""The rules as text: one rule on a terminal, all of them as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby

from mindrecipe.rules.registry import OUTCOMES, Example, Rule


def command(example: Example) -> str:
    """``example`` as it is typed."""
    return f"mindrecipe check {written(example)}"


def written(example: Example) -> str:
    """The overrides of ``example``, with what else it supposes."""
    more = [f"{example.rows} rows of data"] if example.rows is not None else []
    more += [f"{setting} set" for setting in example.environment] + [f"{name} {version} installed" for name, version in example.packages]
    more += [f"this host has no {name}, or it is taken" for name in example.lacks]
    more += [f"this host has {example.npu}"] if example.npu else []
    more += [f"this host has {example.cpu_count} cores"] if example.cpu_count else []
    more += [f"{example.room / 2**30:g} GiB are free"] if example.room is not None else []
    return f"{example.text}   # {', '.join(more)}" if more else example.text


def plain(rule: Rule) -> dict[str, object]:
    """``rule`` as plain values, for scripts."""
    return {
        "id": rule.name,
        "severity": rule.severity,
        "condition": rule.condition,
        "why": rule.why,
        "outcome": rule.outcome,
        "can_be_silenced": rule.can_be_silenced,
        "reads": list(rule.reads),
        "source": rule.source,
        "fails": [example.text for example in rule.fails],
        "passes": [example.text for example in rule.passes],
    }


def markdown(rules: Iterable[Rule]) -> str:
    """All of ``rules``, a section each, a table of contents before them."""
    by_section = {section: list(found) for section, found in groupby(sorted(rules, key=lambda rule: rule.name), _section)}
    lines = ["| rule | severity | objects when |", "| --- | --- | --- |"]
    for rule in chain.from_iterable(by_section.values()):
        lines.append(f"| [`{rule.name}`](#{_anchor(rule)}) | {rule.severity} | {rule.condition} |")
    for section, found in by_section.items():
        lines += ["", f"## {section}"]
        for rule in found:
            lines += ["", *_entry(rule)]
    return "\n".join(lines) + "\n"


def _entry(rule: Rule) -> list[str]:
    silence = "" if rule.can_be_silenced else " It can't be silenced."
    return [
        f"### {rule.name}",
        "",
        f"{rule.severity.capitalize()}: {rule.condition}",
        "",
        f"* Because {rule.why}; {OUTCOMES[rule.outcome]}.{silence}",
        f"* Reads {', '.join(f'`{key}`' for key in rule.reads)}." if rule.reads != ("*",) else "* Reads every knob.",
        f"* Known from {rule.source}.",
        "",
        "```",
        *(f"fails   {written(example)}" for example in rule.fails),
        *(f"passes  {written(example)}" for example in rule.passes),
        "```",
    ]


def _section(rule: Rule) -> str:
    return rule.name.partition(".")[0]


def _anchor(rule: Rule) -> str:
    return rule.name.replace(".", "")
