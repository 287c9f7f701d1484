"""From a composed tree (plain dicts) to the typed RunConfig, collecting every fault instead of stopping at the first."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shlex
import typing
from collections.abc import Callable, Mapping
from typing import Any

from mindrecipe.config import keys
from mindrecipe.config.findings import Finding
from mindrecipe.config.scalars import INT32, any_base, as_float, broken_bound, clamped, example, other_base, reads_as
from mindrecipe.config.schema import KnobDoc, RunConfig
from mindrecipe.config.suggest import nearest_choices, suggest_option
from mindrecipe.config.unknown import Locate, unknown_key, unknown_keys

#: the letters a key's value was written with in a YAML file; None where it was not, or refers to others
Written = Callable[[str], str | None]

_BAD = object()
_YES, _NO = ("yes", "on", "y", "t", "1", "true"), ("no", "off", "n", "f", "0", "false")
_TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "text", list: "a list", dict: "a mapping"}


def to_run_config(tree: Mapping[str, Any], locate: Locate, written: Written = lambda _: None) -> tuple[RunConfig, list[Finding]]:
    """Build the typed configuration of ``tree``. Where a value is wrong its default stands in and a finding says so."""
    converter = _Converter(locate, written)
    values: dict[str, Any] = {}
    for section, cls in keys.sections().items():
        values[section] = converter.section(section, cls, tree.get(section))
    for free in keys.FREE:
        mapping = tree.get(free) or {}
        if not isinstance(mapping, Mapping):
            converter.fault(
                free, mapping, f"{free} takes mindformers' keys", mend=f"{free}.<key>=<value>, e.g. {free}.runner_config.epochs=2"
            )
            mapping = {}
        values[free] = dict(mapping)
    converter.findings += unknown_keys(tree, values, locate)
    return RunConfig(**values), converter.findings


def value_of(key: str, value: Any) -> tuple[Any, list[Finding]]:
    """``value`` as the knob ``key`` takes it, or what is wrong with it (the value is then meaningless)."""
    converter = _Converter(lambda _: None)
    knob = keys.knobs()[key]
    converted = converter.value(key, knob.type, value)
    if converted is not _BAD:
        converter.within(key, knob.doc, converted)
    return converted, converter.findings


class _Converter:
    def __init__(self, locate: Locate, written: Written = lambda _: None) -> None:
        self.locate = locate
        self.written = written
        self.findings: list[Finding] = []

    def section(self, name: str, cls: type, raw: Any) -> Any:
        if raw is None:
            return cls()
        if not isinstance(raw, Mapping):
            option = next(iter(suggest_option(name, raw)), f"{name}=<option>") if isinstance(raw, str) else f"{name}=<option>"
            in_file = (
                f"; in a recipe: `- override /{option.replace('=', ': ', 1)}` in its defaults list" if option.startswith(f"{name}=") else ""
            )
            self.fault(name, raw, f"{name} is a section with knobs, not a value", mend=f"{option}{in_file}; or {name}.<knob>=<value>")
            return cls()
        hints = keys.hints_of(cls)
        values: dict[str, Any] = {}
        for key, value in raw.items():
            if key not in hints:
                self.findings.append(unknown_key(f"{name}.{key}", self.locate))
                continue
            dotted = f"{name}.{key}"
            converted = self.value(dotted, hints[key], value)
            if converted is not _BAD and self.within(dotted, keys.knobs()[dotted].doc, converted):
                values[key] = converted
        return cls(**values)

    def value(self, key: str, hint: Any, value: Any, item: int | None = None) -> Any:
        """``value`` as ``hint`` wants it, or _BAD. ``item``: its place in the list that ``key`` is."""
        inner, optional = keys.optional_of(hint)
        if value is None:
            return (
                None
                if optional or inner is Any
                else self.fault(key, value, f"{key} can't be null", mend=f"{key}={example(keys.knobs()[key])}")
            )
        if value == "":
            mend = f"{key}=null" if optional else f"{key}={example(keys.knobs()[key])}"
            return self.fault(key, value, f"{key} is an empty text", mend=mend)
        if isinstance(value, str) and value in ("None", "Null", "NULL", "nil"):
            mend = f"{key}=null" if optional else f"{key}={example(keys.knobs()[key])}"
            return self.fault(key, value, f"{key} is the text {value!r}, not nothing", mend=mend)
        if inner is Any:
            return value
        origin = typing.get_origin(inner)
        if origin is typing.Union:
            return self.either(key, typing.get_args(inner), value)
        if origin is list:
            return self.items(key, typing.get_args(inner)[0], value)
        if origin is dict:
            return dict(value) if isinstance(value, Mapping) else self.wrong_type(key, dict, value)
        return self.scalar(key, inner, value, self.written(key if item is None else f"{key}.{item}"))

    def either(self, key: str, hints: tuple[Any, ...], value: Any) -> Any:
        for hint in hints:
            base = typing.get_origin(hint) or hint
            if isinstance(value, base) and not (base is int and isinstance(value, bool)):
                return self.value(key, hint, value)
        return self.wrong_type(key, typing.get_origin(hints[-1]) or hints[-1], value)

    def items(self, key: str, hint: Any, value: Any) -> Any:
        if isinstance(value, str) and hint is str:
            return [value]
        if not isinstance(value, list | tuple):
            one = isinstance(value, int | float) and not isinstance(value, bool) and reads_as(float, str(value))
            return self.wrong_type(key, list, value, mend=self.list_of(key, hint, value) if one else None)
        converted, mended, first = [], [], len(self.findings)
        for place, item in enumerate(value):
            before = len(self.findings)
            converted.append(self.value(key, hint, item, place))
            at = self.locate(f"{key}.{place}")
            self.findings[before:] = [dataclasses.replace(finding, where=at) for finding in self.findings[before:]]
            mended.append(self.findings[-1].mend if before < len(self.findings) else f"{key}={json.dumps(converted[-1])}")
        if _BAD not in converted:
            return converted
        mend = _whole_list(key, [each or "" for each in mended])
        self.findings[first:] = [dataclasses.replace(finding, mend=mend) for finding in self.findings[first:]]
        return _BAD

    def list_of(self, key: str, hint: Any, item: Any) -> str | None:
        """The override that gives ``item`` as a list, or what is nearest to it."""
        first = len(self.findings)
        self.items(key, hint, [item])
        found, self.findings[first:] = self.findings[first:], []
        return found[-1].mend if found else f"'{key}=[{item}]'"

    def scalar(self, key: str, kind: type, value: Any, text: str | None) -> Any:
        if kind is bool:
            return value if isinstance(value, bool) else self.wrong_type(key, bool, value)
        if isinstance(value, bool):
            return self.wrong_type(key, kind, value)
        if kind is not str and isinstance(value, int) and text is not None and (base := other_base(text)):
            plain = clamped(keys.knobs()[key], int(text.replace("_", ""))) if base == 8 else example(keys.knobs()[key])
            return self.fault(key, value, f"{key}: YAML reads {text} in base {base}, as {value}", mend=f"{key}={plain}")
        if kind is int:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, int) and abs(value) > INT32:
                return self.fault(key, value, f"{key} must be at most {INT32}", mend=f"{key}={example(keys.knobs()[key])}")
            return value if isinstance(value, int) else self.wrong_type(key, int, value)
        if kind is float:
            return as_float(value) if isinstance(value, int | float) else self.wrong_type(key, float, value)
        if isinstance(value, int | float):
            return str(value) if text is None else text  # a name that looks like a number, e.g. run.name=7
        return value if isinstance(value, str) else self.wrong_type(key, str, value)

    def within(self, key: str, doc: KnobDoc, value: Any) -> bool:
        if doc.choices and isinstance(value, str) and value not in doc.choices:
            near = [*nearest_choices(value, doc.choices), example(keys.knobs()[key])]
            self.fault(key, value, f"{key}={value} is not one of {', '.join(doc.choices)}", mend=f"{key}={near[0]}")
            return False
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            bound = broken_bound(doc, number)
            if bound:
                knob = keys.knobs()[key]
                nearest = doc.ge if "at least" in bound else doc.le if "at most" in bound else None
                mend = example(knob) if nearest is None or isinstance(value, list) else f"{nearest:g}"
                self.fault(key, value, f"{key}={value} must be {bound}", mend=f"{key}={mend}")
                return False
        return True

    def wrong_type(self, key: str, kind: Any, value: Any, mend: str | None = None) -> Any:
        number = value.strip() if isinstance(value, str) else ""
        if mend is None and kind in (int, float) and reads_as(kind, number):
            mend = f"{key}={clamped(keys.knobs()[key], kind(number))}"
        if mend is None and kind in (int, float) and re.fullmatch(r"0[xob][0-9a-f]+", number, re.IGNORECASE) and reads_as(any_base, number):
            mend = f"{key}={clamped(keys.knobs()[key], any_base(number))}"
        if mend is None and kind is bool:
            word = str(value).strip().lower()
            mend = f"{key}={'true' if word in _YES else 'false' if word in _NO else example(keys.knobs()[key])}"
        if mend is None and kind is int and isinstance(value, float) and math.isfinite(value):
            mend = f"{key}={clamped(keys.knobs()[key], round(value))}"
        if mend is None and kind is str and isinstance(value, bool) and not keys.knobs()[key].doc.choices:
            mend = shlex.quote(f'{key}="{self.written(key) or str(value).lower()}"')
        if mend is None:
            mend = f"{key}={example(keys.knobs()[key])}"
        shown = f"{value!r}" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else value
        return self.fault(key, value, f"{key}={shown} must be {_TYPE_NAMES.get(kind, kind)}", mend=mend)

    def fault(self, key: str, value: Any, what: str, mend: str | None = None) -> Any:
        self.findings.append(Finding(rule="config.value", severity="error", keys=(key,), what=what, where=self.locate(key), mend=mend))
        return _BAD


def _whole_list(key: str, mended: list[str]) -> str:
    """The override of a list, from those of its items: as they are, or the default where an item has no mend of its own."""
    default = example(keys.knobs()[key])
    items = [shlex.split(each)[0].removeprefix(f"{key}=") if each.startswith("'") else each.removeprefix(f"{key}=") for each in mended]
    return f"{key}={default}" if default in items else shlex.quote(f"{key}=[{','.join(items)}]")
