"""What the user typed, made ready for Hydra: one grammar for `+x=`, `x=` and `++x=`, and faults told in our words.

Hydra demands `+` where a group has no default and forbids it where it has one, and `+` on a dataclass silently creates a
key that nothing reads. Here a prefix never matters: a known key is set, an unknown one is refused with its neighbours.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from mindrecipe.config import keys
from mindrecipe.config.findings import Finding
from mindrecipe.config.options import groups
from mindrecipe.config.search_path import GROUP
from mindrecipe.config.suggest import suggest, suggest_word
from mindrecipe.paths import shipped

COMMAND_LINE = "command line"
#: the key of `key=value`, as far as it can be told without parsing the value
_KEY = re.compile(r"^(?P<prefix>\+{0,2}|~)(?P<key>[A-Za-z_][\w./@-]*)(?P<rest>=.*)?$", re.DOTALL)
#: one item of a list, in the spellings that people try
_ITEM = re.compile(r"^\+*(?P<key>[\w.]+?)(\.\d+|\[\d+\])(\.[\w.]+)?=(?P<value>.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Normalized:
    """Overrides that Hydra can take, in the order typed, and the faults found in what was typed."""

    overrides: tuple[str, ...]
    findings: tuple[Finding, ...]


def normalize(overrides: list[str], *, sweep: bool = False) -> Normalized:
    """Check each override and rewrite its prefix to the one Hydra wants. ``sweep``: commas make jobs (--multirun)."""
    good: list[str] = []
    findings: list[Finding] = []
    for text in overrides:
        result = _normalize_one(text, sweep)
        if isinstance(result, Finding):
            findings.append(result)
        else:
            good.append(result)
    return Normalized(tuple(good), tuple(findings))


def where(text: str) -> str:
    """How an override is named as the place a value was written."""
    return f"{COMMAND_LINE}: {text}"


def _normalize_one(text: str, sweep: bool) -> str | Finding:
    readable = text.encode(errors="backslashreplace").decode()
    if readable != text:
        return _fault(readable, "this is not UTF-8", mend="a terminal and file names in UTF-8")
    match = _KEY.match(text)
    item = _ITEM.match(text)
    if item and item["key"] in keys.knobs() and not keys.knobs()[item["key"]].is_free_mapping:
        mend = shlex.quote(f"{item['key']}=[{item['value']}]")
        return _fault(text, f"one item can't be set: {item['key']} is written whole", mend=mend)
    if match is None or (match["rest"] is None and match["prefix"] != "~"):
        near = " or ".join(suggest_word(text))
        how = "write key=value, without spaces around '=', e.g. run.seed=5"
        return _fault(text, "this is not an override", mend=f"{near}; {how}" if near else how)
    key = match["key"]
    if key == "hydra" or key.startswith("hydra.") or key.startswith("hydra/"):
        return text
    if match["rest"] == "=~" and _nullable(key):
        return f"{key}=null"  # YAML's null
    try:
        parsed = OverridesParser.create().parse_override(text)
    except HydraException:
        return _unparsable(text, match)
    base = key.split("@")[0]
    if base in groups():
        return _group_choice(text, match, parsed, sweep)
    return _knob_value(text, match, parsed, sweep)


def _group_choice(text: str, match: re.Match[str], parsed: Override, sweep: bool) -> str | Finding:
    key = match["key"]
    if match["prefix"] == "~":
        return _fault(text, f"a group can't be removed: {key} always has a choice", mend=f"choose another option: {key}=<option>")
    if parsed.is_sweep_override():
        if sweep:
            return _as_choice(key, match["rest"])
        first = match["rest"][1:].partition(",")[0].strip("[]{}()")
        return _fault(
            text, f"a comma makes a sweep, and this is one run: {key} takes one option", mend=f"{key}={first}; a sweep: add --multirun"
        )
    value = parsed.value()
    if value is None or value == "":
        mend = f"leave out {key}=" if key == GROUP else f"{key}=<option>; `mindrecipe ls {key}` lists them"
        return _fault(text, f"{key} takes the name of an option", mend=mend)
    if isinstance(value, list):
        return _fault(
            text, f"{key} takes one option, not a list: two would be mixed into one", mend=f"{key}={value[0] if value else '<option>'}"
        )
    if isinstance(value, dict):
        return _fault(text, f"{key} is a group: it takes the name of an option", mend=f"set single knobs as {key}.<knob>=<value>")
    if not isinstance(value, str):  # Hydra takes no number for a name
        return _as_choice(key, f"={quoted(match['rest'][1:].strip())}")
    return _as_choice(key, match["rest"])


def _as_choice(key: str, rest: str) -> str:
    """Our primary config chooses an option of each shipped group; an option of a user's own group is added to those."""
    ours = key == GROUP or (shipped("conf") / key.partition("@")[0]).is_dir()
    return f"{'' if ours else '+'}{key}{rest}"


def _knob_value(text: str, match: re.Match[str], parsed: Override, sweep: bool) -> str | Finding:
    key = match["key"]
    if key in keys.sections():
        return _fault(text, f"{key} is a section, not a value", mend=f"set one of its knobs: {key}.<knob>=<value>")
    if not keys.is_known(key):
        plus = ", and '+' does not make it one" if match["prefix"].startswith("+") else ""
        return Finding(
            rule="config.unknown_key",
            severity="error",
            keys=(key,),
            what=f"unknown key {key!r}{plus}",
            where=where(text),
            mend=_mend_unknown(suggest(key, match["rest"][1:] if match["rest"] else None)),
        )
    free = keys.knobs()[key].is_free_mapping if key in keys.knobs() else keys.free_mapping_of(key) is not None
    if match["prefix"] == "~":
        return (
            text
            if free
            else _fault(text, f"{key} can't be removed", mend=f"{key}=null" if _nullable(key) else "leave it out: then its default stands")
        )
    if parsed.is_sweep_override() and not sweep:
        return _sweep_fault(text)
    return f"{'++' if free else ''}{key}={match['rest'][1:] if parsed.is_sweep_override() else _as_typed(key, match['rest'][1:], parsed)}"


def _as_typed(key: str, value: str, parsed: Override) -> str:
    """``value``, in quotes where Hydra would read a number in what is meant as text: run.name=1e3, launch.env.X=1_000."""
    kind = keys.optional_of(keys.knobs()[key].type)[0] if key in keys.knobs() else None
    read = parsed.value()
    is_number = isinstance(read, int | float)
    if key.startswith("launch.env.") and is_number:
        return quoted(value.strip())
    if kind is str and is_number and not isinstance(read, bool):
        return quoted(value.strip())
    if kind == list[str] and isinstance(read, list) and re.fullmatch(r"\[[\w.+:/ -]+(,[\w.+:/ -]+)*\]", value.strip(), re.ASCII):
        items = [item.strip() for item in value.strip()[1:-1].split(",")]
        pairs = zip(items, read, strict=True)
        return "[" + ",".join(quoted(item) if isinstance(one, int | float) else item for item, one in pairs) + "]"
    return value


def _mend_unknown(near: list[str]) -> str:
    if not near:
        return "`mindrecipe show` lists every key; a key of mindformers itself goes under native.<key>"
    return f"{' or '.join(near)}; a key of mindformers itself goes under native.<key>"


def _nullable(key: str) -> bool:
    return key in keys.knobs() and keys.optional_of(keys.knobs()[key].type)[1]


def _unparsable(text: str, match: re.Match[str]) -> Finding:
    value = (match["rest"] or "=")[1:]
    plain = f"{match['key']}={value}"
    bare = re.sub(r"""(['"])([^'"]*)\1(\s*:)""", r"\2\3", plain)
    if value.startswith("{") and _parses(bare):
        return _fault(text, "in Hydra's grammar the keys of a mapping stand without quotes", mend=shlex.quote(bare))
    return _fault(
        text,
        f"Hydra's grammar can't read the value {value!r}: characters such as = ( ) [ ] {{ }} # ~, letters beyond ASCII "
        "and spaces at the ends need quotes",
        mend=shlex.quote(f"{match['key']}={quoted(value)}"),
    )


def quoted(value: str) -> str:
    """``value`` in double quotes as Hydra reads them: a backslash is itself but before a quote, where it is doubled."""
    return '"' + re.sub(r'(\\*)("|\Z)', lambda found: found[1] * 2 + ('\\"' if found[2] else ""), value) + '"'


def plain(value: str) -> str:
    """The text ``value`` as an override's value: bare where Hydra reads it so, else in quotes; never an interpolation or a number."""
    if re.fullmatch(r"[A-Za-z/][\w./+-]*|\d+\.\d+\.[\w.]+", value, re.ASCII) and value.lower() not in (
        "null",
        "true",
        "false",
        "nan",
        "inf",
    ):
        return value
    return quoted(re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + r"\${", value))


def _parses(text: str) -> bool:
    try:
        OverridesParser.create().parse_override(text)
    except HydraException:
        return False
    return True


def _sweep_fault(text: str) -> Finding:
    key, _, value = text.lstrip("+").partition("=")
    one, several = shlex.quote(f"{key}={quoted(value)}"), shlex.quote(f"{key}=[{value}]")
    is_list = key in keys.knobs() and "list" in str(keys.knobs()[key].type)
    mend = f"a list: {several}" if is_list else f"one value with a comma: {one}"
    return _fault(text, "a comma makes a sweep, and this is one run", mend=f"{mend}; a sweep: add --multirun")


def _fault(text: str, what: str, *, mend: str) -> Finding:
    return Finding(rule="config.override", severity="error", what=what, where=where(text), mend=mend)
