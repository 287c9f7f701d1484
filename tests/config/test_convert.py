"""From plain dicts to the typed run: everything that is wrong is found, nothing raises, every mend converts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from mends import alternatives
from mindrecipe.config import keys
from mindrecipe.config.convert import to_run_config
from mindrecipe.config.findings import Finding
from mindrecipe.config.schema import RunConfig

_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["None", "1e-8", "08118", "O2", "", "yes", "float16"])
)
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
_knobs = st.sampled_from([key for key, knob in keys.knobs().items() if not knob.is_free_mapping])


def _nowhere(_: str) -> str:
    return "file.yaml:1"


def _set(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.partition(".")
    return {section: {name: value}} if name else {section: value}


def _convert(tree: dict[str, Any]) -> tuple[RunConfig, list[Finding]]:
    return to_run_config(tree, _nowhere)


@given(st.dictionaries(st.sampled_from([*keys.sections(), "native", "nope", "1"]), _values, max_size=4))
@example({"native": 7})
@example({"model": {"num_layers": 10**400, "rms_norm_eps": 10**400}})
@example({"model": None, "amp": []})
def test_never_raises_and_every_fault_is_a_finding(tree: dict[str, Any]) -> None:
    config, findings = _convert(tree)
    assert isinstance(config, RunConfig)
    for finding in findings:
        assert finding.severity == "error" and finding.what and finding.mend and finding.where == "file.yaml:1"
    if not findings:
        assert _convert(dataclasses.asdict(config)) == (config, [])


@given(_knobs, _values)
@example("launch.master_port", "08118")
@example("run.name", True)
@example("dataset.shuffle", "yes")
@example("model.num_layers", 32.5)
@example("optimizer.learning_rate", math.nan)
@example("memory.optimize_level", "OFF")
@example("model.offset", "x")
@example("optimizer.betas", ["0"])
@example("profile.ranks", 2**31)
@example("optimizer.betas", [0.5, "0,9", True])
@example("recompute.layers", [[2, 2.5], "1"])
def test_a_wrong_value_names_its_key_and_the_mend_is_taken(key: str, value: Any) -> None:
    config, findings = _convert(_set(key, value))
    if not findings:
        section, _, name = key.partition(".")
        assert _same(getattr(getattr(config, section), name), value)
        return
    for finding in findings:
        assert finding.keys == (key,) and key in finding.what
        for mend in alternatives(finding.mend):
            parsed = OverridesParser.create().parse_override(mend[0])
            assert _convert(_set(parsed.key_or_group, parsed.value()))[1] == [], finding
        assert alternatives(finding.mend), finding


def _same(kept: Any, given_value: Any) -> bool:
    """Equal, but for what is read as the same: 1.0 for 1, 7 for the name "7", one text for a list of it."""
    if isinstance(kept, str) and not isinstance(given_value, str):
        return kept == str(given_value)
    if isinstance(kept, list) and isinstance(given_value, str):
        return kept == [given_value]
    if isinstance(kept, list):
        return len(kept) == len(given_value) and all(map(_same, kept, given_value))
    return bool(kept == given_value)


@pytest.mark.parametrize(
    "key, value, kept",
    [
        ("model.num_layers", 4.0, 4),
        ("model.num_layers", 1e1, 10),
        ("optimizer.learning_rate", 1, 1.0),
        ("run.name", 7, "7"),
        ("dataset.files", "a.txt", ["a.txt"]),
        ("run.tags", [1, "x"], ["1", "x"]),
        ("model.offset", [[1, 0], [0, 1]], [[1, 0], [0, 1]]),
        ("recompute.patterns", {"a": True}, {"a": True}),
        ("launch.env", {"A": 1}, {"A": 1}),
        ("optimizer.eps", 1e-8, 1e-8),
    ],
)
def test_what_is_read_as_meant(key: str, value: Any, kept: Any) -> None:
    config, findings = _convert(_set(key, value))
    assert findings == []
    section, _, name = key.partition(".")
    found = getattr(getattr(config, section), name)
    assert found == kept and type(found) is type(kept)


@pytest.mark.parametrize(
    "key, value, says, mend",
    [
        ("launch.master_port", "08118", "must be an integer", "launch.master_port=8118"),
        ("launch.master_port", 90, "must be at least 1024", "launch.master_port=1024"),
        ("launch.master_port", 70000, "must be at most 65535", "launch.master_port=65535"),
        ("launch.master_port", True, "must be an integer", "launch.master_port=null"),
        ("optimizer.learning_rate", "1e-3", "must be a number", "optimizer.learning_rate=0.001"),
        ("optimizer.learning_rate", 0, "must be more than 0", "optimizer.learning_rate=0.0003"),
        ("optimizer.learning_rate", math.inf, "a finite number", "optimizer.learning_rate=0.0003"),
        ("run.seed", "None", "is the text 'None', not nothing", "run.seed=42"),
        ("model.num_kv_heads", "None", "is the text 'None', not nothing", "model.num_kv_heads=null"),
        ("run.seed", None, "can't be null", "run.seed=42"),
        ("run.dir", "", "empty text", "run.dir=null"),
        ("checkpoint.resume", "", "empty text", "checkpoint.resume=never"),
        ("dataset.shuffle", "yes", "must be true or false", "dataset.shuffle=true"),
        ("dataset.shuffle", 0, "must be true or false", "dataset.shuffle=false"),
        ("parallel.mode", "data", "not one of", "parallel.mode=data_parallel"),
        ("amp.level", "o2", "not one of", "amp.level=O2"),
        ("memory.optimize_level", "OFF", "not one of O0, O1", "memory.optimize_level=O0"),
        ("model.num_layers", 2**40, "must be at most", "model.num_layers=32"),
        ("optimizer.betas", 0.9, "must be a list", "'optimizer.betas=[0.9]'"),
        ("run.name", True, "must be text", "'run.name=\"true\"'"),
        ("dataset.files", {"a": 1}, "must be a list", None),
        ("launch.env", [1], "must be a mapping", None),
    ],
)
def test_what_is_refused(key: str, value: Any, says: str, mend: str | None) -> None:
    _, (finding,) = _convert(_set(key, value))
    assert finding.what.startswith(key) and says in finding.what
    assert mend is None or finding.mend == mend


def test_sections_and_unknown_keys() -> None:
    config, findings = _convert({"model": 7, "amp": {"levle": "O1"}, "modle": {}, "native": {"a": {"b": 1}}, "run": None})
    assert [finding.keys[0] for finding in findings] == ["model", "amp.levle", "modle"]
    assert "section with knobs" in findings[0].what
    assert findings[1].mend and findings[1].mend.startswith("amp.level")
    assert config.native == {"a": {"b": 1}}


@pytest.mark.parametrize(
    "key, text, value, says, mend",
    [
        ("run.seed", "010", 8, "in base 8, as 8", "run.seed=10"),
        ("launch.node_rank", "1:30", 90, "in base 60, as 90", "launch.node_rank=null"),
        ("launch.master_port", "010", 8, "in base 8", "launch.master_port=1024"),
    ],
)
def test_integers_that_yaml_reads_in_another_base(key: str, text: str, value: int, says: str, mend: str) -> None:
    _, (finding,) = to_run_config(_set(key, value), _nowhere, lambda _: text)
    assert says in finding.what and text in finding.what and finding.mend == mend


def test_a_text_is_what_was_written() -> None:
    written = {"run.name": "1e-5", "run.tags.1": "1_000"}
    config, findings = to_run_config({"run": {"name": 1e-5, "tags": ["a", 1000]}}, _nowhere, written.get)
    assert findings == [] and config.run.name == "1e-5" and config.run.tags == ["a", "1_000"]
    _, (finding,) = to_run_config(_set("run.name", True), _nowhere, lambda _: "yes")
    assert finding.mend == "'run.name=\"yes\"'"


def test_a_fault_in_a_list_is_told_with_the_line_of_the_item() -> None:
    _, (finding,) = to_run_config(_set("optimizer.betas", [0.9, "x"]), lambda key: f"x.yaml:{2 if key.endswith('.1') else 1}")
    assert finding.where == "x.yaml:2"


@pytest.mark.parametrize(
    "key, value, mend",
    [
        ("launch.master_port", "010", "launch.master_port=1024"),
        ("model.num_kv_heads", 1e-5, "model.num_kv_heads=1"),
        ("launch.master_port", "0x1fb6", "launch.master_port=8118"),
        ("run.seed", "0b11", "run.seed=3"),
    ],
)
def test_mends_are_within_bounds(key: str, value: Any, mend: str) -> None:
    _, (finding,) = _convert(_set(key, value))
    assert finding.mend == mend


def test_an_option_written_as_a_section() -> None:
    _, (finding,) = _convert({"parallel": "semi-auto"})
    assert finding.mend and finding.mend.startswith("parallel=semi_auto; in a recipe: `- override /parallel: semi_auto`")


def test_sections_of_others_are_looked_into() -> None:
    _, findings = _convert({"runner_config": {"epochs": 2}, "optim": {"lr": 1e-3}, "seed": 3})
    assert [finding.keys[0] for finding in findings] == ["runner_config.epochs", "optim.lr", "seed"]
    mends = [finding.mend or "" for finding in findings]
    assert mends[0].startswith("schedule.epochs=2") and mends[1].startswith("optimizer.learning_rate=0.001") and "run.seed" in mends[2]


def test_a_native_yaml_is_known_as_one() -> None:
    tree = {"runner_config": {"epochs": 2}, "context": {"mode": 0}, "parallel_config": {"data_parallel": 8}, "callbacks": [], "nope": 1}
    _, findings = _convert(tree)
    assert [finding.rule for finding in findings] == ["config.native", "config.unknown_key"]
    assert findings[0].mend == "mindrecipe import file.yaml -o recipes/<name>.yaml"
