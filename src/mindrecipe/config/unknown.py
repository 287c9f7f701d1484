"""Keys of a file that are none: each with what it may stand for, and mindformers' own YAML known as such."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from mindrecipe.config.findings import Finding
from mindrecipe.config.keys import sections
from mindrecipe.config.likeness import letters
from mindrecipe.config.suggest import nearest, suggest

#: sections of a mindformers YAML that are none of ours; so many of them, and a file is one
_NATIVE = frozenset(
    (
        "runner_config",
        "train_dataset",
        "train_dataset_task",
        "parallel_config",
        "recompute_config",
        "context",
        "lr_schedule",
        "trainer",
        "callbacks",
    )
)
_MANY = 3
#: entries of an unknown section that are told one by one
_FEW = 4
#: so like one of our sections that it is meant
_MISSPELT = 0.8
_NATIVE_KEYS = "a key of mindformers itself goes under native.<key>"
Locate = Callable[[str], str | None]


def unknown_keys(tree: Mapping[str, Any], known: Mapping[str, Any], locate: Locate) -> list[Finding]:
    """Findings of the top-level keys of ``tree`` that are not ``known``; few entries of a section are looked for one by one."""
    native = [key for key in tree if key in _NATIVE]
    found = [_native(sorted(map(str, native)), locate)] if len(native) >= _MANY else []
    for key, value in tree.items():
        if key in known or (found and key in _NATIVE):
            continue
        leaves = _leaves(str(key), value)
        misspelt = any(letters(str(key).lower(), section) >= _MISSPELT for section in sections())
        told: list[Finding] = []
        if isinstance(value, Mapping) and 1 <= len(leaves) <= _FEW and not misspelt:
            near = {leaf: suggest(leaf, held if isinstance(held, str) else json.dumps(held, default=str)) for leaf, held in leaves.items()}
            told = [_finding(leaf, names, locate) for leaf, names in near.items()] if any(near.values()) else []
        found += told or [unknown_key(str(key), locate)]
    return found


def unknown_key(key: str, locate: Locate) -> Finding:
    """The finding of a key that is none."""
    return _finding(key, nearest(key), locate)


def _finding(key: str, near: list[str], locate: Locate) -> Finding:
    return Finding(
        rule="config.unknown_key",
        severity="error",
        keys=(key,),
        what=f"unknown key {key!r}",
        where=locate(key),
        mend=f"{' or '.join(near)}; {_NATIVE_KEYS}" if near else _NATIVE_KEYS,
    )


def _native(found: list[str], locate: Locate) -> Finding:
    where = locate(found[0])
    file = (where or "").rpartition(":")[0]
    return Finding(
        rule="config.native",
        severity="error",
        keys=tuple(found),
        what=f"{', '.join(found)} are sections of mindformers' own YAML: this is no recipe",
        where=where,
        mend=f"mindrecipe import {shlex.quote(file or '<file>')} -o recipes/<name>.yaml",
    )


def _leaves(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    return {key: leaf for inner, held in value.items() for key, leaf in _leaves(f"{name}.{inner}", held).items()}
