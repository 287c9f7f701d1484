"""Native configurations with anything changed: never a traceback, and never a silent difference."""

from __future__ import annotations

import copy
import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader

from bridge.samples import gpt2, llama, mcore
from mindrecipe.bridge.compare import same
from mindrecipe.bridge.importer import import_file
from mindrecipe.bridge.write import recipe_text
from mindrecipe.errors import UserError

_SCALARS: list[Any] = [
    None, "None", "", "x", "1e-5", True, False, 0, 1, -1, 2**40, 1.5, float("nan"), float("inf"), "${oc.env:HOME}", "???", "a: b",
    "Flase", "1_000", "0x10", b"ab", datetime.date(2024, 1, 1), "two\nlines", "~", " space", "训练", "rank/x", "*",
]  # fmt: skip
_CONTAINERS: list[Any] = [
    [], [1, 2], [[1, 2], [3, 4]], {}, {"a": 1}, {"type": "X"}, ["a"], [None], {"type": None}, {"type": ["a"]}, {1: 2},
    [{"type": "MFLossMonitor"}, {"type": "MFLossMonitor", "a": 1}], {"CheckpointMonitor": "*"},
]  # fmt: skip
_NEW = ("new", "checkpoint", "moe_config", "swap_config", "monitor_config", "general_config", "epoch", "type", "defaults", "native", "omit")


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, value in items for found in ((*path, key), *_paths(value, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    tree = draw(st.sampled_from([llama, gpt2, mcore]))()
    for _ in range(draw(st.integers(1, 4))):
        *parents, key = draw(st.sampled_from(_paths(tree)))
        parent: Any = tree
        for step in parents:
            parent = parent[step]
        value = copy.deepcopy(draw(st.sampled_from([*_SCALARS, *_CONTAINERS])))  # a later change may go inside
        what = draw(st.sampled_from(["set", "set", "delete", "rename", "add"]))
        if what == "set" or not isinstance(parent, dict):
            parent[key] = value
        elif what == "add":
            parent[draw(st.sampled_from(_NEW))] = value
        else:
            old = parent.pop(key)
            if what == "rename":
                parent[f"{key}s"] = old
    return tree


@settings(max_examples=150)
@given(changed())
def test_any_change_is_imported_equal_or_told(tree: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "changed.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), encoding="utf-8")
        try:
            imported = import_file(path)
        except UserError as fault:
            assert str(fault)
            return
    text = recipe_text(imported)
    if not imported.equal:
        assert all(note.key and note.text for note in imported.of("differs"))
        return
    # as Hydra reads the file: nothing changes between what was lowered and what was written
    written = OmegaConf.to_container(OmegaConf.create(yaml.load(text, Loader=get_yaml_loader())), resolve=True)
    assert isinstance(written, dict)
    assert same(_flat(written), imported.knobs)


def _flat(tree: dict[Any, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {key: value for key, value in tree.items() if key in ("native", "omit")}
    for section, knobs in tree.items():
        if section not in ("defaults", "native", "omit"):
            flat |= {f"{section}.{name}": value for name, value in knobs.items()}
    return flat
