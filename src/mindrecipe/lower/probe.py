"""What a knob lowers to, found out by changing it: the native keys that are then different.

No table to keep in step with the lowering, and nothing is said that it does not do for this very run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindrecipe.config.keys import knobs, value_of, with_value
from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import Derived, derive
from mindrecipe.derive.machine import Machine
from mindrecipe.lower import lower
from mindrecipe.lower.place import Place

_ABSENT = object()
_PROBE = "mindrecipe_probe"


def native_of(key: str, config: RunConfig, derived: Derived, machine: Machine, place: Place) -> dict[str, Any]:
    """Dotted native key -> its value in this run, of all that ``key`` decides; empty where it acts elsewhere (launcher, worker, data)."""
    before = _flat(lower(derived, place))
    changed: set[str] = set()
    for other in _others(key, value_of(derived.config, key)):
        after = _flat(lower(derive(with_value(config, key, other), machine, derived.dataset, derived.kept), place))
        changed |= {path for path in before.keys() | after.keys() if before.get(path, _ABSENT) != after.get(path, _ABSENT)}
    # the name of a run is in every path; what is no longer there had no value of its own
    return {path: before[path] for path in before if path in changed}


def _others(key: str, value: Any) -> Iterator[Any]:
    """Other legal values of the knob, near the one it has."""
    knob = knobs()[key]
    if knob.doc.choices:
        yield from (choice for choice in knob.doc.choices if choice != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        number = value * 2 if value else 1
        yield type(value)(min(number, knob.doc.le) if knob.doc.le is not None and number > knob.doc.le else number)
    elif isinstance(value, dict):
        yield {**value, _PROBE: 1}
    elif isinstance(value, list):
        yield [item * 2 if isinstance(item, int | float) else f"{item}_" for item in value] if value else [_PROBE]
    elif "GB" in str(value) or key in ("memory.max_device_memory", "memory.mempool_block_size"):
        yield "7GB"
    else:
        kind = str(knob.type)
        yield f"{value or ''}_probe" if "str" in kind else 1 if "int" in kind or "float" in kind else [_PROBE] if "list" in kind else True


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    if isinstance(tree, dict) and tree:
        return {key: value for name, inner in tree.items() for key, value in _flat(inner, f"{path}.{name}" if path else str(name)).items()}
    if isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        named = [(item.get("type", place) if isinstance(item, dict) else place, item) for place, item in enumerate(tree)]
        return {key: value for name, item in named for key, value in _flat(item, f"{path}[{name}]").items()}
    return {path: tree}
