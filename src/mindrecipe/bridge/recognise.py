"""Which option of each group fits what was raised, and what then is left to write: the sparse half of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.bridge.compare import same
from mindrecipe.config import keys
from mindrecipe.config.schema import ModelConfig, RunConfig
from mindrecipe.models.family import family_of
from mindrecipe.paths import shipped

#: groups in the order of conf/train.yaml; the others keep their default choice
GROUPS = ("dataset", "parallel", "amp", "recompute", "memory", "optimizer", "schedule", "checkpoint", "device", "monitor", "profile")
#: dimensions that make a model an option of ours
_DIMENSIONS = ("family", "num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "intermediate_size", "vocab_size")


@dataclasses.dataclass(frozen=True, slots=True)
class Recognised:
    """``choices`` group -> option where it is not the default one; ``knobs`` the values no option gives; ``config`` both together."""

    choices: dict[str, str]
    knobs: dict[str, Any]
    config: RunConfig


def recognise(values: Mapping[str, Any]) -> Recognised:
    """Choose options for raised ``values`` (knob -> value; a knob that is missing has the schema's default)."""
    choices = {"model": _model(values)}
    name = _options("model")[choices["model"]].get("model.name")
    values = {**values, "model.name": name or values.get("run.name")}
    if values.get("run.name") == values["model.name"]:
        values["run.name"] = None  # it follows
    for group in GROUPS:
        choices[group] = _best(group, values)
    base = _base(tuple(choices.items()))
    wanted = _complete(values)
    knobs = {key: value for key, value in wanted.items() if not same(value, base[key])}
    usual = _defaults()
    chosen = {group: option for group, option in choices.items() if option != usual.get(group)}
    return Recognised(chosen, knobs, config_of(wanted))


def config_of(values: Mapping[str, Any]) -> RunConfig:
    """The configuration with knob -> value, which raise has checked; all others have the schema's defaults."""
    tree: dict[str, dict[str, Any]] = {}
    for key, value in _complete(values).items():
        section, _, name = key.partition(".")
        tree.setdefault(section, {})[name] = value
    return RunConfig(**{section: cls(**tree[section]) for section, cls in keys.sections().items()})


def _complete(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values.get(key, knob.default) for key, knob in keys.knobs().items() if key not in keys.FREE}


def _model(values: Mapping[str, Any]) -> str:
    """The option with the same dimensions, those that follow from others filled in."""
    if values["model.family"] != "custom":
        wanted = _dimensions(values)
        for name, option in _options("model").items():
            if name != "custom" and _dimensions(option) == wanted:
                return name
    return "custom"


def _dimensions(values: Mapping[str, Any]) -> list[Any]:
    knobs = _schema("model") | {key: value for key, value in values.items() if key.startswith("model.")}
    model = ModelConfig(**{key.partition(".")[2]: value for key, value in knobs.items()})
    complete = family_of(model).complete(model)
    return [getattr(complete, name) for name in _DIMENSIONS]


def _best(group: str, values: Mapping[str, Any]) -> str:
    """The option that leaves least to write; the default one where several do."""
    mine = {key: values.get(key, default) for key, default in _schema(group).items()}
    usual, naming = _defaults()[group], _NAMING.get(group)

    def left(name: str) -> tuple[int, bool, str]:
        option = _options(group)[name]
        count = sum(
            not same(value, option.get(key, default)) for (key, value), default in zip(mine.items(), _schema(group).values(), strict=True)
        )
        # what an option is called after decides before how much it leaves
        misnamed = naming is not None and not same(mine[naming], option.get(naming, _schema(group)[naming]))
        return count + 100 * misnamed, name != usual, name

    return min(_options(group), key=left)


_NAMING = {
    "parallel": "parallel.mode",
    "amp": "amp.level",
    "recompute": "recompute.policy",
    "memory": "memory.optimize_level",
    "dataset": "dataset.source",
    "schedule": "schedule.type",
    "device": "device.name",
}


@cache
def _schema(group: str) -> dict[str, Any]:
    """knob -> default of a section."""
    return {key: knob.default for key, knob in keys.knobs().items() if key.startswith(f"{group}.")}


@cache
def _defaults() -> dict[str, str]:
    """The default choice of each group, from conf/train.yaml."""
    primary = yaml.safe_load((shipped("conf") / "train.yaml").read_text(encoding="utf-8"))
    found = {}
    for entry in primary["defaults"]:
        if isinstance(entry, dict):
            ((group, option),) = entry.items()
            found[str(group)] = str(option)
    return found


@cache
def _options(group: str) -> dict[str, dict[str, Any]]:
    """Shipped options of ``group`` as knob -> value."""
    return {path.stem: _flat(path, group) for path in sorted((shipped("conf") / group).glob("*.yaml"))}


def _flat(path: Path, group: str) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    tree = yaml.safe_load(text) or {}
    whole = text.startswith("# @package _global_")
    sections = tree if whole else {group: tree}
    return {f"{section}.{name}": value for section, knobs in sections.items() for name, value in knobs.items()}


@cache
def _base(choices: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """knob -> value of a run in which only ``choices`` were made, merged in the order of conf/train.yaml."""
    chosen = _defaults() | dict(choices)
    base = {key: knob.default for key, knob in keys.knobs().items()}
    for group, option in chosen.items():
        if group in ("schema", "recipe") or option == "None":
            continue
        base.update(_options(group)[option])
    return base
