"""The import: read, refuse what is no training of a language model, mend, rename, raise, recognise, keep the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindrecipe.bridge import carry, dead, effects
from mindrecipe.bridge.classify import refuse_others
from mindrecipe.bridge.compare import Path as NativePath
from mindrecipe.bridge.compare import differences, dotted
from mindrecipe.bridge.lowered import derived_of, native_of
from mindrecipe.bridge.mends import mended
from mindrecipe.bridge.notes import Note
from mindrecipe.bridge.raise_ import Raised, raise_tree
from mindrecipe.bridge.read import Original, read
from mindrecipe.bridge.recognise import Recognised, config_of, recognise
from mindrecipe.bridge.renames import at, renamed
from mindrecipe.bridge.residue import residue_of, to_extras
from mindrecipe.config.keys import value_of
from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import Derived
from mindrecipe.lower import template
from mindrecipe.lower.residue import copied

#: knobs that may be null because they follow from others: left null where they follow to what the file says
_FOLLOW = (
    "model.num_kv_heads", "model.head_dim", "model.max_position_embeddings", "model.use_flash_attention",
    "model.fused_rms_norm", "parallel.data_parallel", "parallel.vocab_emb_dp", "memory.max_device_memory", "optimizer.betas",
    "optimizer.eps", "dataset.seed", "dataset.columns", "checkpoint.format", "checkpoint.style", "launch.devices_per_node",
)  # fmt: skip

_MODEL = ("model", "model_config")


@dataclass(frozen=True, slots=True)
class Imported:
    """A file as a recipe: ``choices`` and ``knobs`` (with ``native``, ``omit``) are what is written, ``config`` what they say.

    ``target`` is the original, mended and renamed: what lowering must give again. ``derived`` is what follows from ``config``.
    """

    original: Original
    name: str
    target: dict[str, Any]
    choices: dict[str, str]
    knobs: dict[str, Any]
    config: RunConfig
    derived: Derived
    notes: tuple[Note, ...]

    @property
    def equal(self) -> bool:
        """Whether the recipe lowers to the original, key by key after mindformers' template."""
        return not any(note.kind == "differs" for note in self.notes)

    def of(self, kind: str) -> list[Note]:
        """The notes of one kind."""
        return [note for note in self.notes if note.kind == kind]


def import_file(path: Path, *, name: str | None = None, update: bool = False) -> Imported:
    """Import ``path``. ``update`` writes today's names where older ones would still load. UserError for what can't be imported."""
    original = read(path)
    refuse_others(original.tree, path)
    target, notes = mended(original.tree, original.lines)
    notes = [*original.notes, *notes, *renamed(target, original.lines, update=update)]
    target, refused = _without_refused(target, original)
    raised = raise_tree(target, original.lines)
    notes += [*refused, *raised.notes]
    raised.values["run.imported_from"] = str(path)
    found = _with_nulls(raised.values)
    knobs, derived, config, left = _with_residue(found, target)
    never = list(dead.dead(target, original.lines))
    told = _told(target, raised, knobs, derived, {note.key for note in never})
    notes += [*told, *never, *effects.effects(target, derived, original.lines), *left]
    return Imported(original, name or recipe_name(path), target, found.choices, knobs, config, derived, tuple(notes))


def recipe_name(path: Path) -> str:
    """A name for the recipe of ``path`` that Hydra can take as an option."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", path.stem).strip("_") or "imported"


def _without_refused(target: dict[str, Any], original: Original) -> tuple[dict[str, Any], list[Note]]:
    """Leave out the keys that stop mindformers 1.9.0 from loading the file, and say so."""
    _, faults = template.apply(target)
    notes = []
    target = copied(target)
    if not isinstance(target.get("callbacks"), list | None) and not any(fault.path == ("callbacks",) for fault in faults):
        faults.append(template.Fault(("callbacks",), "mindformers takes a list here"))
    # from the end: numbers in a list stay right
    for fault in reversed(faults):
        left_out = "" if fault.missing else "; left out"
        value = None if fault.missing else _take_out(target, fault.path)
        line = next((original.lines[fault.path[:end]] for end in (2, 1) if fault.path[:end] in original.lines), None)
        notes.append(Note(kind="wrong", key=dotted(fault.path), value=value, line=line, text=fault.why + left_out))
    mode = target.get("run_mode")
    if mode not in template.TRAIN_MODES:
        known = ", ".join(template.RUN_MODES)
        why = f"run_mode {mode!r} is none of {known}" if mode not in template.RUN_MODES else f"the file says run_mode {mode!r}"
        text = f"{why}: kept as written, and nothing trains with it"
        line = original.lines.get(("run_mode",))
        notes.append(Note(kind="wrong", key="run_mode", value=mode, line=line, mend="native.run_mode=train", text=text))
    return target, notes


def _take_out(target: dict[str, Any], path: NativePath) -> Any:
    parent: Any = target
    for step in path[:-1]:
        parent = parent[step]
    return parent.pop(path[-1])


def _with_nulls(values: dict[str, Any]) -> Recognised:
    """Leave null what follows to the same; then choose options."""
    candidates = {key: values[key] for key in _FOLLOW if key in values}
    trial = dict(values)
    for key in candidates:
        del trial[key]
    resolved = derived_of(config_of(trial)).config
    for key, value in candidates.items():
        if value_of(resolved, key) == value and not (key.startswith("model.") and values["model.family"] == "custom"):
            del values[key]
    return recognise(values)


def _with_residue(found: Recognised, target: dict[str, Any]) -> tuple[dict[str, Any], Derived, RunConfig, list[Note]]:
    """The knobs with ``native``, ``omit`` and extras, what follows from them, and what is not equal all the same."""
    wanted, _ = template.apply(target)
    rest = residue_of(found.config, target, wanted)
    config, knobs = found.config, dict(found.knobs)
    for section, extra in to_extras(rest, config).items():
        config = replace(config, **{section: replace(getattr(config, section), extra=extra)})
        knobs[f"{section}.extra"] = extra
    config = replace(config, native=rest.native, omit=rest.omit)
    if rest.native:
        knobs["native"] = rest.native
    if rest.omit:
        knobs["omit"] = rest.omit
    derived = derived_of(config)
    notes = [
        Note(kind="differs", key=each.key, value=each.right, text=f"it would be {each.left!r}")
        for each in differences(template.apply(native_of(derived))[0], wanted)
    ]
    return knobs, derived, config, [*notes, *carry.uncarried(knobs)]


def _told(target: dict[str, Any], raised: Raised, knobs: dict[str, Any], derived: Derived, read_never: set[str]) -> Iterator[Note]:
    """Every key of the file: recognised as a knob, recognised because our lowering writes the same anyway, or passed through."""
    passed = set(_kept(knobs))
    for path in _keys(target):
        key, line, value = dotted(path), raised.lines.get(path), _value(target, path)
        if path in passed or path[:1] in passed:
            if key not in read_never and path[0] not in read_never:
                yield Note(kind="passed", key=key, value=value, text="as written", line=line)
            continue
        knob = raised.sources.get(path)
        inner = [raised.sources[source] for source in raised.sources if source[: len(path)] == path] if knob is None else [knob]
        value = value_of(derived.config, knob) if knob else value
        yield Note(
            kind="recognised", key=key, value=value, text=", ".join(dict.fromkeys(inner)) or "as mindrecipe always writes it", line=line
        )


def _value(target: dict[str, Any], path: NativePath) -> Any:
    if path[0] == "callbacks" and len(path) > 1:
        return next(item for item in target["callbacks"] if isinstance(item, dict) and item.get("type") == path[1])
    return at(target, path)


def _keys(target: dict[str, Any]) -> Iterator[NativePath]:
    """The keys a report names: those of each section, of model_config, and each callback by its type."""
    for section, value in target.items():
        if section == "callbacks" and isinstance(value, list):
            yield from ((section, item["type"]) for item in value if isinstance(item, dict) and isinstance(item.get("type"), str))
        else:
            yield from _keys_of(section, value)


def _keys_of(section: str, value: Any) -> Iterator[NativePath]:
    if not (isinstance(value, dict) and value):
        yield (section,)
        return
    for key, inner in value.items():
        if (section, key) == _MODEL and isinstance(inner, dict):
            yield from ((*_MODEL, name) for name in inner)
        else:
            yield section, key


def _kept(knobs: dict[str, Any]) -> Iterator[NativePath]:
    """Native paths of what is passed through."""
    for section, value in knobs.get("native", {}).items():
        yield from _keys_of(section, value)
    for extra, path in (("optimizer.extra", ("optimizer",)), ("schedule.extra", ("lr_schedule",)), ("model.extra", _MODEL)):
        yield from ((*path, key) for key in knobs.get(extra, {}))
