"""The last word over a lowered configuration: ``omit`` leaves keys of ours unwritten, ``native`` adds mindformers' own.

Both follow the tree of the native configuration. ``callbacks`` is a list there: a list under ``native`` replaces it, a mapping
type -> arguments adds to the callback of that type, or appends one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

#: in ``omit``: whatever the value is
ANY = "*"
CALLBACKS = "callbacks"


def finish(native: Mapping[str, Any], over: Mapping[str, Any], omit: Mapping[str, Any]) -> dict[str, Any]:
    """``native`` without what ``omit`` names, ``over`` merged over it, and the data set repeated where mindformers has it twice."""
    result = pruned(native, omit) if omit else copied(dict(native))
    result = merge(result, over)
    task = result.get("train_dataset_task")
    given = over.get("train_dataset_task")
    if isinstance(task, dict) and "dataset_config" in task and not (isinstance(given, Mapping) and "dataset_config" in given):
        # mindformers replaces it by train_dataset when it builds the data set (dataset/utils.py:38): never let them differ
        task["dataset_config"] = copied(result.get("train_dataset"))
    return result


def copied(value: Any) -> Any:
    """A copy of plain data that shares no mapping and no list with it (several times faster than copy.deepcopy)."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [copied(inner) for inner in value]
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``base``: mappings merge key by key, everything else is replaced. Neither is changed."""
    result: dict[str, Any] = copied(dict(base))
    for key, value in over.items():
        below = result.get(key)
        if key == CALLBACKS and isinstance(below, list) and _by_type(value):
            result[key] = _merge_callbacks(below, value)
        elif isinstance(value, Mapping) and isinstance(below, Mapping):
            result[key] = merge(below, value)
        else:
            result[key] = copied(value)
    return result


def _by_type(value: Any) -> bool:
    return isinstance(value, Mapping) and all(arguments is None or isinstance(arguments, Mapping) for arguments in value.values())


def _merge_callbacks(callbacks: list[Any], over: Mapping[str, Any]) -> list[Any]:
    result = list(callbacks)
    places = {callback.get("type"): place for place, callback in enumerate(result) if isinstance(callback, dict)}
    for kind, arguments in over.items():
        given = dict(arguments or {})
        if kind in places:
            result[places[kind]] = merge(result[places[kind]], given)
        else:
            result.append({"type": kind, **copied(given)})
    return result


def pruned(native: Mapping[str, Any], omit: Mapping[str, Any]) -> dict[str, Any]:
    """``native`` without the keys that have the value ``omit`` gives for them; a mapping that loses its last key goes with it."""
    result: dict[str, Any] = {}
    for key, value in native.items():
        if key not in omit:
            result[key] = copied(value)
            continue
        unless = omit[key]
        if unless == ANY:
            continue
        if key == CALLBACKS and isinstance(value, list) and isinstance(unless, Mapping):
            result[key] = _pruned_callbacks(value, unless)
        elif isinstance(value, Mapping) and isinstance(unless, Mapping):
            left = pruned(value, unless)
            if left:
                result[key] = left
        elif value != unless or isinstance(value, bool) != isinstance(unless, bool):
            result[key] = copied(value)
    return result


def _pruned_callbacks(callbacks: list[Any], omit: Mapping[str, Any]) -> list[Any]:
    result = []
    for callback in callbacks:
        unless = omit.get(callback["type"])
        if unless != ANY:
            result.append(pruned(callback, unless) if isinstance(unless, Mapping) else copied(callback))
    return result


def passed_through(native: Mapping[str, Any], most: int = 8) -> str | None:
    """One line that names what ``native`` passes through, for a run's summary: the first ``most`` keys; None where there is nothing."""
    said = [f"{path}={json.dumps(value, default=str)}" for path, value in _leaves(native, "")]
    more = f" and {len(said) - most} more" if len(said) > most else ""
    return f"native, passed through as written: {', '.join(said[:most])}{more}" if said else None


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
