"""Where a value comes from: its documentation, every place that wrote it in the order they were merged, what filled it, what it becomes."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from typing import Any

from mindrecipe.config import keys
from mindrecipe.config.options import groups
from mindrecipe.config.provenance import Provenance, entries, line_of, sets, shown
from mindrecipe.config.search_path import GROUP
from mindrecipe.config.suggest import nearest
from mindrecipe.derive.reasons import REASONS
from mindrecipe.errors import UserError
from mindrecipe.lower.probe import native_of
from mindrecipe.run import Run

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One place that had a say: ``source`` default, option, recipe, file, command line or derived; ``written`` in its own letters."""

    source: str
    where: str | None
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """``value`` is the final one. ``lowers_to``: native key -> value, of all it decides. ``history``: first to last; the last one won."""

    key: str
    value: Any
    default: Any
    type: str
    unit: str | None
    allowed: str | None
    doc: str
    lowers_to: dict[str, Any]
    history: list[Step]


def explain(key: str, run: Run) -> Explanation:
    """Everything about ``key`` in ``run``. UserError for a key that is none."""
    require_key(key)
    name = key if key in keys.knobs() else keys.free_mapping_of(key) or key
    knob, inside = keys.knobs()[name], key != name
    value = _value(run, key)
    if inside and value is _ABSENT:
        raise UserError(f"nothing sets {key}", mend=f"{key}=<value> sets it")
    lowers_to = native_of(name, run.config, run.derived, run.machine, run.export_place())
    if inside:
        last = key.rpartition(".")[2]
        same_name = {path: native for path, native in lowers_to.items() if path.endswith(last)}
        lowers_to = {key.removeprefix("native."): value} if name == "native" else same_name
    return Explanation(
        key=key,
        value=value,
        default=None if inside else knob.default,
        type=type_name(knob.type) if not inside else f"anything ({name} takes any key)",
        unit=knob.doc.unit,
        allowed=None if inside else allowed(knob),
        doc=knob.doc.doc,
        lowers_to=lowers_to,
        history=history(key, run),
    )


def differing(run: Run) -> list[tuple[str, Any, Step]]:
    """(key, value, the step that decided it) of every knob whose value is not the schema's default, in the schema's order."""
    found = []
    for key, knob in keys.knobs().items():
        value = _value(run, key)
        if value != knob.default:
            found.append((key, value, history(key, run)[-1]))
    return found


def history(key: str, run: Run) -> list[Step]:
    """Default, files, command line, derivation: what each wrote."""
    knob = keys.knobs().get(key)
    steps = [Step(source="default", where=None, written=_text(knob.default))] if knob else []
    steps += written_steps(key, run.provenance, run.choices)
    value, before = _value(run, key), _value(run, key, derived=False)
    if value != before or (key == "run.name" and len(steps) == 1 and value is not None):
        follows, how = REASONS.get(key, ((), "what follows from the rest"))
        from_ = ", ".join(f"{other}={_text(run.choices.get(other) if other in groups() else _value(run, other))}" for other in follows)
        because = run.derived.device_reason if key == "device.name" and run.derived.device_reason else how
        steps.append(Step(source="derived", where=f"from {from_}" if from_ else None, written=f"{_text(value)}: {because}"))
    return steps


def written_steps(key: str, provenance: Provenance, choices: dict[str, str]) -> list[Step]:
    """The files and overrides that wrote ``key``."""
    steps = []
    for source in provenance.sources:
        line = line_of(source, key)
        if line is None:
            continue
        group = source.path.parent.name
        kind = "recipe" if _is_recipe(source.path.as_posix(), choices) else f"{group}={source.path.stem}" if group in groups() else "file"
        inner = source.inner(key) or key
        found = entries(source.path).get(inner)
        text = found.source if found else "(a key above it)"
        resolved = "" if "${" not in text else " (a reference)"
        steps.append(Step(source=kind, where=f"{shown(source.path)}:{line}", written=f"{text}{resolved}"))
    for text in provenance.overrides:
        if sets(text, key):
            steps.append(Step(source="command line", where=shlex.quote(text), written=text.partition("=")[2]))
    return steps


def require_key(key: str) -> None:
    """Refuse what is no knob and in no free mapping."""
    if key in keys.knobs() or keys.free_mapping_of(key) is not None:
        return
    if key in keys.sections():
        inside = [name for name in keys.knobs() if name.startswith(f"{key}.")]
        raise UserError(f"{key} is a section", mend=f"one of {', '.join(inside)}")
    near = nearest(key)
    raise UserError(
        f"there is no key {key!r}", mend=" or ".join(f"mindrecipe explain {name}" for name in near) or "`mindrecipe show` lists every key"
    )


def type_name(hint: Any) -> str:
    """A type as a person says it: "integer or null"."""
    inner, optional = keys.optional_of(hint)
    names = {int: "integer", float: "number", bool: "true or false", str: "text"}
    name = names.get(inner) or str(inner).replace("typing.", "").replace("str", "text").replace("Any", "anything")
    return f"{name} or null" if optional else name


def allowed(knob: keys.Knob) -> str | None:
    """The legal values, where there is more to say than the type."""
    doc = knob.doc
    if doc.choices:
        return ", ".join(doc.choices)
    bounds = [("at least", doc.ge), ("more than", doc.gt), ("at most", doc.le)]
    return ", ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None) or None


def _is_recipe(path: str, choices: dict[str, str]) -> bool:
    recipe = choices.get(GROUP)
    return bool(recipe) and path.endswith(f"/{recipe}.yaml") and "/conf/" not in path


def _value(run: Run, key: str, *, derived: bool = True) -> Any:
    at: Any = dataclasses.asdict(run.derived.config if derived else run.config)
    for name in key.split("."):
        if not isinstance(at, dict) or name not in at:
            return _ABSENT
        at = at[name]
    return at


def _text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
