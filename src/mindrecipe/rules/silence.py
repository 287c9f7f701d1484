"""Rules about rules: what ``rules.silence`` may say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mindrecipe.config.keys import nearest_word
from mindrecipe.config.overrides import quoted
from mindrecipe.derive import Derived
from mindrecipe.rules.registry import RULES, TINY, Problem, reasons, rule


@rule(
    "rules.unknown_id",
    "error",
    "it would silence nothing, and whoever wrote it expects quiet",
    outcome="ignored",
    source="rules/registry.py",
    reads="rules: silence",
    fails=[f'{TINY} rules.silence.mesh.head_unsplitt="padded by the loader"', f"{TINY} rules.silence.mesh=tested"],
    passes=[f'{TINY} rules.silence.mesh.head_unsplit="padded by the loader"'],
)
def unknown_id(d: Derived) -> Iterator[Problem]:
    """rules.silence names a rule that there is not."""
    for name, reason in reasons(d).items():
        if name not in RULES:
            near = nearest_word(name, RULES, 1) or nearest_word(name.rpartition(".")[2], RULES, 1)
            right = shlex.quote(f"rules.silence.{near[0]}={quoted(reason)}") + " " if near else ""
            yield Problem(
                f"rules.silence: there is no rule {name}", (f"rules.silence.{name}", "rules.silence"), f"{right}rules.silence.{name}=null"
            )


@rule(
    "rules.without_reason",
    "error",
    "whoever reads the run later can't know whether the reason still holds",
    outcome="differs",
    source="rules/registry.py",
    reads="rules: silence",
    fails=[f"{TINY} rules.silence.checkpoint.nothing_kept=''"],
    passes=[f"{TINY} rules.silence.checkpoint.nothing_kept=throughput"],
)
def without_reason(d: Derived) -> Iterator[Problem]:
    """A rule is silenced without a word why."""
    for name, reason in reasons(d).items():
        if name in RULES and len(reason.strip()) < 3:
            key = f"rules.silence.{name}"
            yield Problem(f"{key} needs a reason", (key, "rules.silence"), f"'{key}=\"measured: no effect\"'")


@rule(
    "rules.not_to_be_silenced",
    "error",
    "the run would end with an error all the same",
    outcome="ignored",
    source="the outcome of each rule (`mindrecipe rules ls`)",
    reads="rules: silence",
    fails=[f'{TINY} rules.silence.mesh.product="trust me"'],
    passes=[f'{TINY} rules.silence.mesh.accumulation_reset="a recipe for two kinds of clusters"'],
)
def not_to_be_silenced(d: Derived) -> Iterator[Problem]:
    """An error is silenced that stops the launch outright."""
    for name in reasons(d):
        if name in RULES and not RULES[name].can_be_silenced:
            yield Problem(
                f"rules.silence.{name}: {name} can't be silenced", (f"rules.silence.{name}", "rules.silence"), f"rules.silence.{name}=null"
            )
