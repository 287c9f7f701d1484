"""Runs without a machine, and mends pasted back: for tests of everything between an override and the native YAML."""

from __future__ import annotations

import dataclasses
import re
import shlex
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from mindrecipe.config.convert import to_run_config
from mindrecipe.config.findings import Finding, raise_errors
from mindrecipe.config.options import groups
from mindrecipe.config.overrides import normalize
from mindrecipe.config.provenance import Provenance
from mindrecipe.derive import PLANNED, derive
from mindrecipe.derive.machine import Machine
from mindrecipe.errors import UserError, UserErrors
from mindrecipe.run import Run

#: a laptop: what tests must not depend on
MACHINE = Machine(npu=None, npu_count=0, memory_bytes=16 * 2**30, cores=2, cpu_count=2)
TINY = "+model=llama2_tiny"
#: the issue's cluster run
LARGE = ("+model=llama2_7b", "parallel=semi_auto", "amp=O2")
_OVERRIDE = re.compile(r"(\+{0,2}[A-Za-z_][\w./@\\]*=(?!<).*|~[A-Za-z_][\w.\\]*)", re.DOTALL)


def run_of(*overrides: str) -> Run:
    """The run of ``overrides``, composed by Hydra."""
    return Run.from_overrides(list(overrides), machine=MACHINE)


@cache
def _base(choices: tuple[str, ...]) -> Run:
    return run_of(*choices)


def quick(*overrides: str) -> Run:
    """The run of ``overrides`` without Hydra's merging: knobs are set over a composition of the groups that is kept.

    For knobs of sections only; no interpolation. test_compose.py checks that it is what Hydra makes.
    """
    known = groups()
    choices = tuple(text for text in overrides if text.lstrip("+").partition("=")[0] in known)
    knobs = tuple(text for text in overrides if text not in choices)
    base = _base(choices)
    tree = dataclasses.asdict(base.config)
    for text in normalize(list(knobs)).overrides:
        parsed = OverridesParser.create().parse_override(text)
        at: dict[str, Any] = tree
        *above, last = parsed.key_or_group.split(".")
        for name in above:
            at = at.setdefault(name, {})
        if parsed.is_delete():
            del at[last]
        else:
            at[last] = parsed.value()
    provenance = Provenance(base.provenance.sources, (*base.provenance.overrides, *knobs))
    config, wrong = to_run_config(tree, provenance.locate)
    raise_errors(wrong)
    kept = [key for key in PLANNED if config.parallel.planned and provenance.is_set(key)]
    return Run(config, derive(config, MACHINE, kept=kept), MACHINE, provenance, base.choices)


def findings(*overrides: str, make: Any = run_of) -> list[Finding]:
    """Everything that is said about ``overrides``: the faults of composing, or the findings of the rules."""
    try:
        return list(make(*overrides).check())
    except UserError as fault:
        faults = fault.faults if isinstance(fault, UserErrors) else [fault]
        return [Finding(rule="compose", severity="error", what=each.what, where=each.where, mend=each.mend) for each in faults]


def errors(*overrides: str, make: Any = run_of) -> list[Finding]:
    """The errors among :func:`findings`."""
    return [finding for finding in findings(*overrides, make=make) if finding.severity == "error"]


def rules_of(*overrides: str, make: Any = quick) -> dict[str, str]:
    """rule -> severity of the rules that object to ``overrides``."""
    return {finding.rule: finding.severity for finding in make(*overrides).check()}


def alternatives(mend: str | None) -> list[list[str]]:
    """What can be pasted of a mend: each alternative as a list of overrides."""
    found = []
    for part in re.split(r";\s+(?:or\s+)?|,\s+or\s+|\s+or\s+", mend or ""):
        try:
            words = shlex.split(re.sub(r"^(?:train |[a-z ]+: )", "", part.strip()))
        except ValueError:
            continue
        if words and all(_OVERRIDE.fullmatch(word) for word in words):
            found.append(words)
    return found


def pasted(overrides: tuple[str, ...], finding: Finding, mend: list[str]) -> tuple[str, ...]:
    """``overrides`` after the user followed ``mend``: the faulty text goes where it could not be read, keys that are written again too."""
    at = (finding.where or "").removeprefix("command line: ")
    keys = {_key(word) for word in mend if not word.startswith("~")}
    kept = [text for text in overrides if _key(text) not in keys and not (finding.rule == "compose" and _same(text, at))]
    return (*kept, *mend)


def assert_mends(*overrides: str, make: Any = run_of, keys: tuple[str, ...] = (), severity: str = "error") -> list[Finding]:
    """Every finding of ``severity`` names a key and its place, and each alternative of its mend removes it. Returns the findings."""
    found = [finding for finding in findings(*overrides, make=make) if finding.severity == severity]
    assert found, f"nothing is said about {overrides}"
    for key in keys:
        assert any(key in finding.what for finding in found), (key, [finding.what for finding in found])
    for finding in found:
        assert finding.where, finding
        choices = alternatives(finding.mend)
        assert choices, f"nothing to paste in {finding.mend!r}"
        for mend in choices:
            again = pasted(overrides, finding, mend)
            left = findings(*again, make=make)
            assert not any(_is(finding, other) for other in left), (again, left)
            if len(found) == 1 and severity == "error":
                assert not [other for other in left if other.severity == "error"], (again, left)
    return found


def _key(text: str) -> str:
    return text.lstrip("+~").partition("=")[0]


def _same(text: str, other: str) -> bool:
    return text.lstrip("+") == other.lstrip("+")


def _is(finding: Finding, other: Finding) -> bool:
    return finding.rule == other.rule and (finding.rule != "compose" or finding.what == other.what) and finding.severity == other.severity
