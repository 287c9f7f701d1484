"""Whatever is typed and whatever stands in a user's YAML: exit code 0 or 2, a message, never a traceback, nothing written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mindrecipe.config.keys import knobs, sections
from mindrecipe.paths import shipped

pytestmark = pytest.mark.usefixtures("here")
#: composing is slow: raise it for a long search
EXAMPLES = int(os.environ.get("MINDRECIPE_FUZZ", "12"))

_text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=10)
_words = st.sampled_from(
    [
        "null",
        "None",
        "true",
        "1",
        "0",
        "-1",
        "1e400",
        "nan",
        "inf",
        "9" * 30,
        "''",
        "[]",
        "{}",
        "[1,2]",
        "{a: 1}",
        "[[1],[2,3]]",
        "a,b",
        "???",
    ]
    + [
        "${run.seed}",
        "${nope}",
        "${run.name}",
        "${oc.env:HOME}",
        "${",
        "choice(1,2)",
        "range(1,3)",
        "$x",
        "a b",
        "é",
        "/a=b",
        "[",
        "x]",
        "O2",
        "llama2_7b",
    ]
    + [
        "semi_auto",
        "float16",
        "~",
        "null,null",
        "{a: {b: [1]}}",
        "[null]",
        "['']",
        "2147483648",
        "0.5",
        "cpu",
        "auto",
        "${now:%Y}",
        "\\",
        '"',
        "'",
    ]
)
_keys = (
    st.sampled_from(
        [*knobs(), *sections(), "recipe", "hydra.run.dir", "native.a.b", "launch.env.X", "optimizer.extra.x", "recompute.patterns"]
    )
    | st.from_regex(r"[a-z_.@/\[\]0-9]{1,12}", fullmatch=True)
    | _text
)
_overrides = st.builds(
    lambda prefix, key, equals, value: f"{prefix}{key}{equals}{value}",
    st.sampled_from(["", "", "", "+", "++", "~"]),
    _keys,
    st.sampled_from(["=", "=", "=", "", "==", " = "]),
    _words | _text,
)


def _is_orderly(said: Any, here: Path, files: list[Path]) -> None:
    assert said.code in (0, 2), said
    if said.code == 2:
        assert "error" in said.out + said.err or "Usage:" in said.err
    assert "Traceback" not in said.err
    assert sorted(here.rglob("*.*")) == files


@settings(max_examples=EXAMPLES)
@given(st.lists(_overrides, max_size=4), st.booleans())
@example(["model.hidden_size=" + "9" * 400], True)
@example(["run.name=${run.name}"], False)
@example(["run.name=${run.root}", "run.root=${run.name}"], False)
@example(["native=[1]"], False)
@example(["hydra/launcher=nope"], False)
@example(["hydra.job.chdir=true"], False)
@example(["model.num_layers=${oc.decode:'['}"], False)
def test_any_overrides(here: Path, mindrecipe: Callable[..., Any], overrides: list[str], bare: bool) -> None:
    words = [word for word in overrides if not word.startswith("-")]
    said = mindrecipe("check", *([] if bare else ["+model=llama2_tiny"]), *words, "--json")
    _is_orderly(said, here, [])
    if said.out:
        found = json.loads(said.out)
        assert found["ok"] == (said.code == 0)
        for finding in found["findings"]:
            assert finding["what"] and (finding["mend"] or finding["where"] or said.code == 0), finding


_good = (shipped("recipes") / "tiny_cpu.yaml").read_bytes()
_lines = st.sampled_from(
    [
        "model: null",
        "model: 7",
        "model: [1]",
        "model:",
        "  num_layers: 3",
        "\tx: 1",
        "model: {a: ${b}}",
        "run: {name: '${x}'}",
        "defaults: 3",
        "- a",
    ]
    + [
        "defaults:",
        "  - override /amp: O9",
        "  - /amp: O1",
        "  - mine",
        "  - amp",
        "  - {a: b, c: d}",
        "  - _self_",
        "x: &a [*a]",
        "? [a]",
        "--- ",
        "...",
    ]
    + [
        "# @package foo",
        "# @package a b",
        "# @foo",
        "run: !!binary aGk=",
        "1: 2",
        "null: 3",
        "true: 1",
        "'': 1",
        "? {a: 1}",
        "%YAML 9",
        "launch: {env: {A: [1]}}",
    ]
    + [
        "hydra: {job: {chdir: true}}",
        "hydra: 3",
        "  - override hydra/launcher: nope",
        "native: x",
        "omit: x",
        "model: ${model}",
        "run: ${run.seed}",
    ]
)
_yaml = st.lists(_lines | _text, max_size=6).map(lambda lines: "\n".join(lines).encode()) | st.builds(
    lambda at, put: _good[:at] + put + _good[at:], st.integers(0, len(_good)), st.binary(max_size=3)
)


@settings(max_examples=EXAMPLES)
@given(_yaml, st.sampled_from(["recipes/mine.yaml", "conf/amp/mine.yaml", "conf/model/mine.yaml", "conf/own/mine.yaml"]))
@example(b"\xff\xfe", "recipes/mine.yaml")
@example(b"defaults:\n  - mine\n", "conf/amp/mine.yaml")
@example(b"hydra: 3\n", "recipes/mine.yaml")
@example(b"x: &a [*a]\n", "recipes/mine.yaml")
def test_any_yaml(here: Path, mindrecipe: Callable[..., Any], content: bytes, path: str) -> None:
    target = here / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    try:
        group = {"recipes": "recipe", "amp": "amp", "model": "model", "own": "own"}[target.parent.name]
        said = mindrecipe("check", *([] if group == "model" else ["+model=llama2_tiny"]), f"+{group}=mine")
        _is_orderly(said, here, [target])
        listed = mindrecipe("ls")
        assert listed.code == 0 and f"{group}=mine\t" in listed.out
    finally:
        target.unlink()
        for folder in (target.parent, target.parent.parent):
            if folder != here and not list(folder.iterdir()):
                folder.rmdir()
