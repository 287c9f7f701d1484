"""What our knobs do not say of a native configuration: ``native`` and ``omit``, so that lowering gives the original again.

Lower what was raised, compare it with the original as mindformers would read both, and keep each difference: a value of the
original under ``native`` (or under the section's own ``extra``), a key of ours that the original leaves to mindformers under ``omit``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mindrecipe.bridge.compare import MISSING, Difference, Path, differences, same
from mindrecipe.bridge.lowered import derived_of, native_of
from mindrecipe.bridge.renames import at, put
from mindrecipe.config.schema import RunConfig
from mindrecipe.lower import template
from mindrecipe.lower.residue import ANY, CALLBACKS, copied

_TASK = ("train_dataset_task", "dataset_config")
_ROUNDS = 4


@dataclass(slots=True)
class Residue:
    """``native`` and ``omit`` as the recipe has them; ``bare`` what our knobs alone lower to."""

    native: dict[str, Any] = field(default_factory=dict)
    omit: dict[str, Any] = field(default_factory=dict)
    bare: dict[str, Any] = field(default_factory=dict)


def residue_of(config: RunConfig, original: dict[str, Any], wanted: dict[str, Any]) -> Residue:
    """What must be said beside ``config`` so that it lowers to ``original``, which mindformers reads as ``wanted``."""
    found = Residue()
    for _ in range(_ROUNDS):
        lowered = native_of(derived_of(replace(config, native=found.native, omit=found.omit)))
        found.bare = found.bare or lowered
        left = list(differences(template.apply(lowered)[0], wanted))
        if not left:
            break
        for difference in left:
            _keep(difference, lowered, original, found)
    return found


def _keep(difference: Difference, lowered: dict[str, Any], original: dict[str, Any], found: Residue) -> None:
    path, wanted = difference.path, difference.right
    if path[:2] == _TASK and len(path) > 2:
        _keep_task(original, found)
    elif path == (CALLBACKS,) and wanted is MISSING:
        found.omit[CALLBACKS] = ANY
    elif path == (CALLBACKS,):
        _keep_callbacks(lowered.get(CALLBACKS), original.get(CALLBACKS, MISSING), found)
    elif wanted is MISSING:
        value = at(lowered, path)
        if value is not MISSING:
            _omit(found, path, value)
    else:
        put(found.native, path, copied(wanted))


def _omit(found: Residue, path: Path, value: Any) -> None:
    if at(found.native, path) is not MISSING or path == _TASK:
        put(found.omit, path, ANY)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            _omit(found, (*path, key), inner)
    else:
        put(found.omit, path, copied(value))


def _keep_task(original: dict[str, Any], found: Residue) -> None:
    """The data set is repeated from train_dataset (lower/residue.py) unless the file's second copy really differs."""
    task, data = at(original, _TASK), original.get("train_dataset")
    if task is MISSING or (data is not None and same(task, data)):
        return
    put(found.native, _TASK, copied(task))
    # the whole of it is the file's: nothing of ours is to stay beneath
    put(found.omit, _TASK, ANY)


def _keep_callbacks(ours: Any, wanted: Any, found: Residue) -> None:
    """By type where the file names each callback once, so that checkpoint.* still act; else the whole list."""
    if wanted is MISSING or wanted is None:
        wanted = []
    types = [item.get("type") if isinstance(item, dict) else None for item in wanted] if isinstance(wanted, list) else [None]
    texts = all(isinstance(kind, str) for kind in types)
    if not texts or len(set(types)) < len(types) or isinstance(found.native.get(CALLBACKS), list) or CALLBACKS in found.omit:
        found.native[CALLBACKS] = copied(wanted)
        found.omit.pop(CALLBACKS, None)
        return
    mine = {item["type"]: item for item in ours}
    native: dict[str, Any] = found.native.get(CALLBACKS, {})
    omit: dict[str, Any] = {}
    for item in wanted:
        base = mine.get(item["type"])
        if base is None:
            native[item["type"]] = {key: copied(value) for key, value in item.items() if key != "type"}
            continue
        added = {key: copied(value) for key, value in item.items() if key not in base or not same(base[key], value)}
        if added:
            native[item["type"]] = native.get(item["type"], {}) | added
        unset = {key: copied(value) for key, value in base.items() if key not in item}
        if unset:
            omit[item["type"]] = unset
    for kind, item in mine.items():
        if kind not in types and not (kind == "MFLossMonitor" and len(item) == 1):
            omit[kind] = ANY if kind != "MFLossMonitor" else {key: value for key, value in item.items() if key != "type"}
    if native:
        found.native[CALLBACKS] = native
    if omit:
        found.omit[CALLBACKS] = omit
    if not native and not omit:
        found.native[CALLBACKS] = copied(wanted)
    elif not wanted:
        found.native.pop(CALLBACKS, None)


def to_extras(found: Residue, config: RunConfig) -> dict[str, dict[str, Any]]:
    """Move what belongs to a section with an ``extra`` of its own from ``native`` to it; section -> what it gets."""
    moved: dict[str, dict[str, Any]] = {}
    for section, path in (("optimizer", ("optimizer",)), ("schedule", ("lr_schedule",)), ("model", ("model", "model_config"))):
        given = at(found.native, path)
        if not isinstance(given, dict) or not given:
            continue
        ours = at(found.bare, path)
        for key, value in list(given.items()):
            nested = isinstance(value, dict) and isinstance(ours, dict) and isinstance(ours.get(key), dict)
            if isinstance(key, str) and not nested:
                moved.setdefault(section, {})[key] = given.pop(key)
        _drop_empty(found.native, path)
    return {section: getattr(config, section).extra | extra for section, extra in moved.items()}


def _drop_empty(tree: dict[str, Any], path: Path) -> None:
    for end in range(len(path), 0, -1):
        parent = at(tree, path[: end - 1]) if end > 1 else tree
        if isinstance(parent, dict) and parent.get(path[end - 1]) == {}:
            del parent[path[end - 1]]
