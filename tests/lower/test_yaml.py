"""to_yaml: what PyYAML reads back is what was written, floats as floats, and always the same bytes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from mindrecipe.freeze import to_yaml
from mindrecipe.lower import merge

_printable = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
_leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _printable
_trees = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=30) | st.dictionaries(_printable | st.integers(), inner, max_size=5), max_leaves=40
)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and a == b


@given(_trees)
@example(1e-08)
@example({"lr": 1e-3, "eps": 1e-16, "big": 1e300, "whole": 1.0, "minus": -2.5e-7})
@example(math.inf)
@example(
    {"pattern": r"feed_forward\.mul", "text": "1e-8", "none": "null", "no": "no", "date": "2024-01-01", "octal": "0o17", "colon": "1:30"}
)
@example({"文件": "数据/a b.mindrecord", "emoji": "🙂", "quote": "a'b\"c", "nl": "a\nb", "tab": "\ta "})
@example([list(range(300))])
@example(["x" * 400, {"a": []}, [], {}])
@example((1, (2, 3)))
def test_round_trip(data: Any) -> None:
    text = to_yaml(data)
    assert _same(data, yaml.safe_load(text))
    assert to_yaml(yaml.safe_load(text)) == text, "byte-stable"


def test_an_object_used_twice_is_written_twice() -> None:
    shared = {"a": [1, 2]}
    text = to_yaml({"x": shared, "y": shared})
    assert "&" not in text and "*" not in text


def test_order_and_form_are_kept() -> None:
    assert to_yaml({"b": 1, "a": [1, 2.0, None], "c": [{"type": "X"}], "d": (1e-8,)}) == (
        "b: 1\na: [1, 2.0, null]\nc:\n- type: X\nd: [1.0e-08]\n"
    )


@pytest.mark.parametrize("number", [1e-8, 1e-3, 3e-4, 1e16, 5e-324, 0.1 + 0.2])
def test_floats_have_a_dot(number: float) -> None:
    """PyYAML reads 1e-3 as text: mindformers would take it for one."""
    assert "." in to_yaml(number).split("e")[0]
    assert yaml.safe_load(to_yaml(number)) == number


_maps = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
_mappings = st.dictionaries(st.sampled_from("abc"), _maps, max_size=3)


@given(_mappings, _mappings, _mappings)
def test_merge(base: dict[str, Any], over: dict[str, Any], third: dict[str, Any]) -> None:
    kept = (to_yaml(base), to_yaml(over))
    result = merge(base, over)
    assert (to_yaml(base), to_yaml(over)) == kept, "neither is changed"
    assert merge(base, {}) == base and merge({}, over) == over and merge(result, over) == result
    assert set(result) == set(base) | set(over)
    for key, value in over.items():
        if not isinstance(value, dict):
            assert result[key] == value
        elif isinstance(base.get(key), dict):
            assert result[key] == merge(base[key], value)
    assert merge(merge(base, over), third) == merge(base, merge(over, third)) or _shape_changes(base, over, third)


def _shape_changes(*trees: dict[str, Any]) -> bool:
    """A mapping replaced by a value and back: the only case in which the order of merging matters."""
    found: dict[str, set[bool]] = {}

    def walk(tree: dict[str, Any], prefix: str) -> None:
        for key, value in tree.items():
            found.setdefault(prefix + key, set()).add(isinstance(value, dict))
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")

    for tree in trees:
        walk(tree, "")
    return any(len(kinds) == 2 for kinds in found.values())


def test_merge_shares_nothing() -> None:
    base, over = {"a": {"b": [1]}}, {"c": {"d": [2]}}
    result = merge(base, over)
    result["a"]["b"].append(9)
    result["c"]["d"].append(9)
    assert base == {"a": {"b": [1]}} and over == {"c": {"d": [2]}}
