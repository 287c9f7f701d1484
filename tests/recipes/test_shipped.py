"""Every recipe and every option that is shipped: composed, checked and lowered; headers that say what for, and commands that run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mends import TINY, quick, run_of
from mindrecipe.config.options import describe, groups, options
from mindrecipe.config.overrides import normalize
from mindrecipe.config.search_path import GROUP
from mindrecipe.data.spec import DataFacts
from mindrecipe.freeze import to_yaml
from mindrecipe.paths import shipped
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")
CONF, RECIPES = shipped("conf"), shipped("recipes")
FILES = sorted(CONF.rglob("*.yaml")) + sorted(RECIPES.rglob("*.yaml"))
GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir())
#: how many there are: a file that is not found any more, or one nobody decided on, is noticed
COUNTS = {
    "amp": 4, "checkpoint": 4, "dataset": 4, "device": 9, "evaluate": 2, "launch": 6, "memory": 2, "model": 8, "monitor": 3,
    "optimizer": 4, "parallel": 6, "profile": 2, "recompute": 5, "rehearse": 1, "schedule": 9,
}  # fmt: skip
#: made to be filled by `mindrecipe import`: not complete by themselves
IMPORTED = {"model/custom", "dataset/native"}
#: what an option needs to be complete
WITH = {
    "dataset/text": ["dataset.files=[a.txt]"],
    "dataset/mindrecord": ["dataset.files=[a.mindrecord]"],
    "recompute/per_stage": ["recompute.layers=[1]"],
    "parallel/hybrid": ["launch.workers=2"],
    "launch/local": ["parallel=standalone"],
    "parallel/planned": ["amp=O2"],
    "launch/ssh": ["launch.hosts=[a,b]", "parallel=data", "launch.devices_per_node=1"],
    "optimizer/came": ["device=ascend_910b"],
}
CHECKED: dict[tuple[str, ...], Run] = {}


def _name(path: Path) -> str:
    root = RECIPES if path.is_relative_to(RECIPES) else CONF
    name = path.relative_to(root).with_suffix("").as_posix()
    return f"{GROUP}/{name}" if root is RECIPES else name


NAMES = {_name(path): path for path in FILES}
OPTIONS = [name for name in NAMES if "/" in name]


def _sound(*overrides: str) -> Run:
    if overrides not in CHECKED:
        assert normalize(list(overrides)).findings == ()
        run = quick(*overrides)
        assert [finding.what for finding in run.check() if finding.severity == "error"] == []
        CHECKED[overrides] = run
    return CHECKED[overrides]


def _commands(path: Path) -> list[list[str]]:
    """The command lines of a header: comment lines that are indented and begin with train or mindrecipe."""
    lines = [line[1:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    found = [re.sub(r"\s{3,}.*", "", line.strip()) for line in lines if re.match(r"\s{3}(train|mindrecipe)\s", line)]
    return [shlex.split(line) for line in found]


COMMANDS = [(name, command) for name, path in NAMES.items() if name not in IMPORTED for command in _commands(path)]


# --- the files themselves


def test_nothing_is_missing_and_nothing_is_new() -> None:
    assert {group: len(list((CONF / group).rglob("*.yaml"))) for group in GROUPS} == COUNTS
    assert len(list(RECIPES.rglob("*.yaml"))) == 6
    assert [path.name for path in CONF.glob("*.yaml")] == ["train.yaml"]
    assert len(FILES) == sum(COUNTS.values()) + 6 + 1


@pytest.mark.parametrize("group", [*GROUPS, GROUP])
def test_what_is_listed_is_what_is_there(group: str) -> None:
    assert group in groups()
    assert options(group) == sorted(name.partition("/")[2] for name in NAMES if name.partition("/")[0] == group)
    assert all(option.summary and option.summary.endswith((".", ":")) for option in describe(group))


def test_the_primary_config() -> None:
    """Explicit `_self_`; every group of the defaults list is there, every group is in it, the recipe comes last."""
    primary = yaml.safe_load((CONF / "train.yaml").read_text(encoding="utf-8"))
    entries = primary["defaults"]
    assert "_self_" in entries
    chosen = {next(iter(entry)): next(iter(entry.values())) for entry in entries if isinstance(entry, dict)}
    assert set(chosen) == {*GROUPS, GROUP}
    assert list(chosen)[-1] == GROUP and chosen[GROUP] is None and chosen["model"] is None
    for group, option in chosen.items():
        assert option is None or (CONF / group / f"{option}.yaml").is_file()
    assert set(primary) == {"defaults", "hydra"}
    text = (CONF / "train.yaml").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(text):
        if re.match(r"  - (?!_self_)", line):
            assert text[number - 1].startswith("  # "), f"no comment over {line}"


@pytest.mark.parametrize("name", OPTIONS)
def test_the_header_says_what_for_and_when_not(name: str) -> None:
    lines = NAMES[name].read_text(encoding="utf-8").splitlines()
    header = [line for line in lines[: next(n for n, line in enumerate(lines) if not line.startswith("#"))] if "@package" not in line]
    prose = [line for line in header if not re.match(r"#\s{3}", line)]
    assert len(prose) >= 2 and prose[0].endswith((".", ":")), "what it is for, and when not to use it"
    assert all(re.match(r"# \S|#   (train|mindrecipe) ", line) for line in header)
    assert max(map(len, lines)) <= 160
    commands = _commands(NAMES[name])
    assert len(commands) >= 2, "an exact command and one with an override"
    if name in IMPORTED:
        return
    group, _, option = name.partition("/")
    assert any(len(command) > len(commands[0]) or command != commands[0] for command in commands[1:])
    chosen = [word.lstrip("+") for command in commands for word in command]
    default = yaml.safe_load((CONF / "train.yaml").read_text(encoding="utf-8"))["defaults"]
    is_default = {group: option} in default
    assert f"{group}={option}" in chosen or is_default or f"{GROUP}={option}" in str(chosen) or group == "model", (
        f"{name} is not in its own commands"
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_sparse_and_recipes_are_deltas(name: str) -> None:
    text = NAMES[name].read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    assert data
    if name.startswith(GROUP):
        assert text.startswith("# @package _global_\n")
        assert all(key.startswith("override /") for entry in data.get("defaults", []) for key in entry)
        assert "name" in data["run"]
    else:
        assert "defaults" not in data
    assert "\t" not in text and text.endswith("\n") and not text.endswith("\n\n")


# --- composed, checked, lowered


@pytest.mark.parametrize("name", OPTIONS)
def test_composes_checks_and_lowers(name: str) -> None:
    group, _, option = name.partition("/")
    if name in IMPORTED:
        assert run_of(TINY, f"{group}={option}")
        return
    model = [] if group in ("model", GROUP) else [TINY]
    overrides = [*model, f"{group}={option}", *WITH.get(name, [])]
    if name == "launch/msrun":
        overrides += ["parallel=data", "launch.workers=2"]
    run = _sound(*overrides)
    assert run.choices[group] == option
    facts = DataFacts(
        train_files=("/data/train.mindrecord",), heldout_files=(), columns=("input_ids",), train_rows=100_000, heldout_rows=0,
        train_tokens=1, heldout_tokens=0, unigram_entropy=None, fingerprint="f",
    )  # fmt: skip
    known = run.with_dataset(facts)
    assert [finding.what for finding in known.check() if finding.severity == "error"] == []
    native = known.lower()
    assert yaml.safe_load(to_yaml(native)) == native
    for section in (
        "trainer",
        "runner_config",
        "optimizer",
        "lr_schedule",
        "runner_wrapper",
        "train_dataset",
        "model",
        "context",
        "callbacks",
    ):
        assert native[section]


@pytest.mark.parametrize("name", [name for name in OPTIONS if name.startswith(f"{GROUP}/")])
def test_recipes_have_no_warnings(name: str) -> None:
    run = _sound(f"+{name.replace('/', '=', 1)}")
    assert run.check() == []
    number = re.search(r"_(\d+)x\d+g$", name)
    assert number is None or run.derived.device_num == int(number[1]), "the name says how many devices"


@pytest.mark.parametrize(
    "recipe, devices, mesh, batch, parameters",
    [
        # as the published files say (their names are in the headers); the 7B's mesh does not fit with fp32 parameters
        ("llama2_7b_pretrain_8x64g", 8, (4, 1, 1, 2), 64, 6_738_415_616),
        ("llama2_13b_pretrain_16x64g", 16, (2, 4, 1, 2), 32, 13_015_864_320),
        ("llama2_70b_pretrain_64x64g", 64, (2, 4, 1, 8), 512, 68_976_648_192),
        ("qwen3_32b_pretrain_16x64g", 16, (1, 4, 1, 4), 8, 32_762_123_264),
    ],
)
def test_published_recipes(recipe: str, devices: int, mesh: tuple[int, ...], batch: int, parameters: int) -> None:
    derived = _sound(f"+{GROUP}={recipe}").derived
    parallel = derived.config.parallel
    assert (parallel.data_parallel, parallel.model_parallel, parallel.context_parallel, parallel.pipeline_stage) == mesh
    assert (derived.device_num, derived.global_batch_size, derived.parameters) == (devices, batch, parameters)


# --- the commands that headers give


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 2 * (len(OPTIONS) - len(IMPORTED))
    assert {command[0] for _, command in COMMANDS} == {"train", "mindrecipe"}


@pytest.mark.parametrize("name, command", COMMANDS, ids=[f"{name}-{number}" for number, (name, _) in enumerate(COMMANDS)])
def test_the_command_of_a_header(name: str, command: list[str], mindrecipe: Callable[..., Any]) -> None:
    """`train` lines compose and check without an error; `mindrecipe` lines are run, in an empty folder."""
    if command[0] == "train":
        _sound(*command[1:])
        return
    said = mindrecipe(*command[1:])
    assert said.code == 0, said.err
    assert "Traceback" not in said.err
