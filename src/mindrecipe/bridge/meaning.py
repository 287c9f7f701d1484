"""What a recipe, a run or a YAML means: knob -> value, everything that follows filled in, spelling and irrelevant knobs left out."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.bridge import dead
from mindrecipe.bridge.importer import import_file
from mindrecipe.bridge.lowered import NOWHERE, native_of
from mindrecipe.bridge.mends import leaves
from mindrecipe.config import keys
from mindrecipe.config.compose import Composed, compose
from mindrecipe.config.convert import to_run_config
from mindrecipe.config.findings import raise_errors
from mindrecipe.config.schema import RunConfig
from mindrecipe.config.search_path import use_config_dir
from mindrecipe.derive import Derived, derive
from mindrecipe.derive.machine import this_machine
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.errors import UserError
from mindrecipe.lower import template
from mindrecipe.runfiles import CONFIG, LOCK

#: where a run is and what it is called, and knobs that others are derived from
_NOT_MEANT = {
    "run.name", "run.dir", "run.root", "run.tags", "run.imported_from", "model.name", "model.keys", "amp.level", "amp.dtype",
    "amp.loss_scale", "memory.headroom", "device.memory_gb", "device.peak_tflops", "launch.node_rank", "launch.workers",
    "launch.dry_run", "launch.freeze_only", "launch.max_restarts", "launch.restart_window", "launch.restart_backoff",
    "launch.stall_timeout", "launch.stall_min", "omit",
}  # fmt: skip
_POOL = ("memory.max_device_memory", "memory.mempool_block_size")
#: what a native YAML can't say
_NOT_NATIVE = (
    "launch.", "monitor.", "profile.", "watch.", "evaluate.", "run.imports", "checkpoint.resume", "checkpoint.strict", "dataset.source",
    "dataset.files",    "dataset.heldout", "dataset.text_field", "dataset.tokenizer", "dataset.cache_dir",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meaning:
    """``knobs`` and what follows (``derived``); ``unread``: those of them that mindformers never reads in training."""

    title: str
    kind: str
    derived: Derived
    knobs: dict[str, Any]
    unread: frozenset[str]

    @property
    def native(self) -> bool:
        """Whether it came from mindformers' own YAML."""
        return self.kind == "mindformers YAML"


def meaning_of(text: str) -> Meaning:
    """What ``text`` names: a run directory, a YAML of mindformers, a recipe (name, file, or overrides in one word)."""
    path = Path(text)
    if path.is_dir():
        return _of_run(path)
    if path.is_file():
        return _of_file(path)
    if "=" not in text and (path.suffix in (".yaml", ".yml") or "/" in text):
        raise UserError(
            f"{text} is not there", mend="the path of a run directory or a YAML, or the name of a recipe (`mindrecipe ls recipe`)"
        )
    words = text.split()
    return _of_recipe(text, [word if "=" in word else f"+recipe={word}" for word in words])


def comparable(left: Meaning, right: Meaning) -> tuple[dict[str, Any], dict[str, Any]]:
    """The knobs of both that can be compared: where one is a native YAML, what those can say."""
    if left.native == right.native:
        return left.knobs, right.knobs
    return _sayable(left.knobs), _sayable(right.knobs)


def _sayable(knobs: dict[str, Any]) -> dict[str, Any]:
    said = {key: value for key, value in knobs.items() if not key.startswith(_NOT_NATIVE)}
    # a native YAML says Ascend; which one is guessed
    return said | {"device.name": str(knobs["device.name"]).partition("_")[0]}


def _of_recipe(title: str, overrides: list[str]) -> Meaning:
    composed = compose(overrides)
    return made_of(title, "recipe", _checked(composed, title), None)


def _checked(composed: Composed, title: str) -> RunConfig:
    if composed.config.model.family is None:
        raise UserError(f"{title!r} chooses no model", mend="add +model=<option>, or name a recipe")
    return composed.config


def _of_file(path: Path) -> Meaning:
    head = path.read_bytes()[:65536].decode("utf-8", errors="replace")
    if head.startswith("# @package _global_") or "\ndefaults:" in f"\n{head}":
        with tempfile.TemporaryDirectory(prefix="mindrecipe-diff-") as folder:
            recipes = Path(folder) / "recipes"
            recipes.mkdir()
            (recipes / "compared.yaml").write_bytes(path.read_bytes())
            use_config_dir(Path(folder))
            try:
                return _of_recipe(str(path), ["+recipe=compared"])
            finally:
                use_config_dir(None)
    if "\nparallel:\n  mode:" in head and "\nlaunch:" in head:
        return _of_config(path, path, None)
    imported = import_file(path)
    return made_of(str(path), "mindformers YAML", imported.config, None)


def _of_run(path: Path) -> Meaning:
    if not (path / CONFIG).is_file():
        raise UserError(f"{path} is no run directory: it has no {CONFIG}", mend="name a folder under runs/")
    lock = path / LOCK
    try:
        facts = json.loads(lock.read_text(encoding="utf-8"))["derived"] if lock.is_file() else None
    except (ValueError, KeyError, TypeError) as fault:
        raise UserError(f"{lock} can't be read: {fault}") from None
    return _of_config(path, path / CONFIG, facts)


def _of_config(path: Path, file: Path, facts: dict[str, Any] | None) -> Meaning:
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise UserError(f"{file} can't be read: {str(fault).splitlines()[0]}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{file} holds no configuration")
    config, findings = to_run_config(tree, lambda key: f"{file}: {key}")
    raise_errors(findings)
    return made_of(str(path), "run", config, facts)


def made_of(title: str, kind: str, config: RunConfig, facts: dict[str, Any] | None) -> Meaning:
    """The meaning of ``config``; ``facts`` are lock.json's derived ones, where it is a run's."""
    if facts is not None:
        config = _without_counted(config, facts)
    machine = this_machine() if config.device.name == "auto" else NOWHERE
    derived = derive(config, machine)
    knobs = _meant(derived)
    return Meaning(title, kind, derived, knobs, frozenset(_unread(knobs, derived)))


def _unread(knobs: dict[str, Any], derived: Derived) -> Iterator[str]:
    """Keys passed through that training never reads (dead.py)."""
    never = [note.key for note in dead.dead(native_of(derived), {})]
    extras = {"model.extra.": "model.model_config.", "optimizer.extra.": "optimizer.", "schedule.extra.": "lr_schedule.", "native.": ""}
    for key in knobs:
        path = next((native + key.removeprefix(ours) for ours, native in extras.items() if key.startswith(ours)), None)
        if path is not None and any(path == other or path.startswith(f"{other}.") for other in never):
            yield key


def _without_counted(config: RunConfig, facts: dict[str, Any]) -> RunConfig:
    """A run directory has the steps that were counted from its data set: those were not written."""
    schedule, per_epoch = config.schedule, facts.get("steps_per_epoch")
    if per_epoch is None or schedule.total_steps is None or schedule.total_steps != per_epoch * schedule.epochs:
        return config
    counted = schedule.warmup_steps == int(schedule.total_steps * schedule.warmup_ratio)
    return dataclasses.replace(
        config, schedule=dataclasses.replace(schedule, total_steps=None, warmup_steps=None if counted else schedule.warmup_steps)
    )


def _meant(derived: Derived) -> dict[str, Any]:
    config = derived.config
    knobs: dict[str, Any] = {}
    for key in keys.knobs():
        if key in _NOT_MEANT or key == "native":
            continue
        value = keys.value_of(config, key)
        if keys.knobs()[key].is_free_mapping:
            knobs |= {f"{key}.{'.'.join(map(str, path))}": inner for path, inner in leaves(value)}
        else:
            knobs[key] = value
    for name in _irrelevant(derived):
        knobs.pop(name, None)
    return knobs | _effective(derived) | _patterns(derived) | _native(config)


def _effective(derived: Derived) -> dict[str, Any]:
    """Knobs that are written one way and act another."""
    schedule, total = derived.config.schedule, derived.total_steps
    # outside of one-stage sharded runs it is reset (derive/mesh.py)
    found: dict[str, Any] = {
        "amp.loss_scale": derived.loss_scale.kind,
        "parallel.gradient_accumulation_steps": derived.batch.gradient_accumulation_steps,
    }
    if schedule.type in ("wsd", "constant_cooldown") and total is not None:
        found |= {"schedule.decay_steps": schedule.decay_steps or max(1, int(total * schedule.decay_ratio)), "schedule.decay_ratio": None}
    return found


def _irrelevant(derived: Derived) -> list[str]:
    """Knobs that nothing reads, given the others."""
    c, scale = derived.config, derived.loss_scale.kind
    schedule, saved = c.schedule.type, c.checkpoint.save_final or c.checkpoint.save_steps or c.checkpoint.save_minutes
    table: list[tuple[Any, tuple[str, ...]]] = [
        (True, ("checkpoint.style",)),
        (c.schedule.total_steps is not None, ("schedule.epochs",)),
        (c.schedule.warmup_steps is not None, ("schedule.warmup_ratio",)),
        (c.model.family != "custom", ("model.multiple_of", "model.ffn_dim_multiplier", "model.architecture")),
        (scale != "dynamic", ("amp.loss_scale_factor", "amp.loss_scale_window")),
        (scale == "none", ("amp.loss_scale_value",)),
        (derived.hardware.target == "CPU", ("device.precision_mode", "device.parallel_speed_up", *_POOL)),
        (c.parallel.mode not in SHARDED, ("parallel.full_batch", "parallel.data_parallel", "parallel.enable_alltoall")),
        (c.parallel.context_parallel == 1, ("parallel.context_parallel_algo", "parallel.ulysses_degree_in_cp")),
        (c.parallel.mode != "auto", ("parallel.search_mode",)),
        (schedule not in ("cosine", "cosine_restarts", "cosine_annealing_restarts"), ("schedule.num_cycles",)),
        (schedule in ("constant", "linear"), ("schedule.lr_end",)),
        (schedule not in ("wsd", "constant_cooldown"), ("schedule.decay_steps", "schedule.decay_ratio")),
        (schedule.startswith("cosine_annealing"), ("schedule.warmup_steps", "schedule.warmup_ratio", "schedule.warmup_lr_init")),
        (not saved, ("checkpoint.keep", "checkpoint.async_save")),
    ]
    return [key for unread, names in table if unread for key in names]


def _patterns(derived: Derived) -> dict[str, Any]:
    recompute, family = derived.config.recompute, derived.family
    if recompute.policy not in ("attention", "selective"):
        return {}
    ours = family.attention_patterns if recompute.policy == "attention" else family.selective_patterns
    # which patterns are recomputed is what counts: attention is a name for some of them
    return {"recompute.policy": "selective", "recompute.patterns": recompute.patterns or list(ours)}


def _native(config: RunConfig) -> dict[str, Any]:
    """native.* as single keys; what only says mindformers' default again is left out."""
    defaults = {path: value for name, section in template.SECTIONS.items() for path, value in _leaves_of(name, section)}
    defaults |= {(key,): value for key, value in template.GENERAL.items()}
    missing = object()
    return {f"native.{'.'.join(map(str, path))}": value for path, value in leaves(config.native) if defaults.get(path, missing) != value}


def _leaves_of(name: str, section: template.Section) -> list[tuple[tuple[Any, ...], Any]]:
    if section.spec or section.listed:
        return []
    return [((name, *path), value) for path, value in leaves(section.defaults)]
