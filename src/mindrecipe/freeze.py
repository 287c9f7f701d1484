"""The run directory: made once, atomically, with everything needed to repeat, resume, compare or explain the run.

It is written beside its final place and renamed into it: a run directory is whole or not there. A collision is an error,
never a merge.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.derive import Derived
from mindrecipe.derive.surroundings import in_the_way
from mindrecipe.errors import UserError
from mindrecipe.lower.outside import environment, msrun_options
from mindrecipe.lower.place import Resume
from mindrecipe.models.family import recomputed_flops
from mindrecipe.runfiles import CHECKPOINT, CONFIG, LOCK, LOGS, NATIVE, OVERRIDES


def config_hash(derived: Derived) -> str:
    """Hash of all a person can set, resolved, but for what names, places or judges it (run.name, launch, monitor, profile, rules)."""
    tree = dataclasses.asdict(derived.config)
    tree["run"] = {"seed": tree["run"]["seed"], "imports": tree["run"]["imports"]}
    del tree["launch"], tree["monitor"], tree["profile"], tree["rules"]
    return hashlib.sha256(json.dumps(tree, sort_keys=True, default=str).encode()).hexdigest()


def choose_dir(derived: Derived) -> Path:
    """The run directory of ``derived``, absolute: run.dir, or runs/<name>/<time>-<hash>. Refuses one that exists."""
    given = derived.config.run
    if given.dir is not None:
        path = Path(given.dir).expanduser().absolute()
        if os.path.lexists(path):  # a link to nothing is in the way too
            raise exists(Path(given.dir))
        return path
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{config_hash(derived)[:6]}"
    return numbered(Path(given.root).expanduser().absolute() / (given.name or "run") / name)


def exists(path: Path) -> UserError:
    """The fault of naming a run directory that is there already."""
    return UserError(
        f"run directory {path} exists: a run never writes into another one's",
        where=f"run.dir={path}",
        mend=f"another run.dir, or go on from it: checkpoint.resume={path} run.dir=null",
    )


def numbered(path: Path) -> Path:
    """``path`` where it is free, else the first of <path>-2, <path>-3, ... that is."""
    free, number = path, 1
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def in_new_dir(derived: Derived, write: Callable[[Path], None]) -> Path:
    """Let ``write`` make the run directory of ``derived``; another run that takes the same name in the same moment moves us on."""
    while True:
        path = choose_dir(derived)
        try:
            write(path)
        except FileExistsError:
            continue  # choose_dir refuses a run.dir that exists now, and numbers a derived name
        return path


def freeze(path: Path, derived: Derived, overrides: tuple[str, ...], native: Mapping[str, Any], lock: Mapping[str, Any]) -> None:
    """Write the run directory ``path``, absolute.

    FileExistsError where it exists, UserError where it can't be written: nothing of it is left then.
    """
    fresh = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        fresh.mkdir(parents=True)
        for folder in (LOGS, CHECKPOINT):
            (fresh / folder).mkdir()
        (fresh / CONFIG).write_text(to_yaml(dataclasses.asdict(derived.config)), encoding="utf-8")
        (fresh / OVERRIDES).write_text(to_yaml(list(overrides)), encoding="utf-8")
        (fresh / NATIVE).write_text(to_yaml(native), encoding="utf-8")
        (fresh / LOCK).write_text(json.dumps(lock, indent=2, default=str) + "\n", encoding="utf-8")
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "it exists", str(path))
        os.rename(fresh, path)
    except OSError as fault:
        shutil.rmtree(fresh, ignore_errors=True)
        if fault.errno in (errno.EEXIST, errno.ENOTEMPTY) and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "it exists", str(path)) from fault
        why = in_the_way(path) or fault.strerror or fault
        raise UserError(f"can't make the run directory {path}: {why}", mend="run.dir=<a new folder on a disk with room>") from fault


def freeze_start(path: Path, native: Mapping[str, Any], resume: Resume | None) -> None:
    """Rewrite where the run in ``path`` starts, for another attempt at it: each file in one piece, the rest of them as it was."""
    _replace(path / NATIVE, to_yaml(native))
    _write_start(path, resume)


def freeze_evaluation(path: Path, trained: Resume) -> None:
    """The same for an attempt that has nothing left to train: the ranks evaluate the weights of ``trained`` (worker/remaining.py)."""
    _write_start(path, trained)


def _write_start(path: Path, resume: Resume | None) -> None:
    """``resume`` is where this attempt starts, ``origin`` what the run goes on from: it stays as attempts start from the run's own."""
    lock = json.loads((path / LOCK).read_text(encoding="utf-8"))
    if resume is None or not Path(resume.folder).resolve().is_relative_to(path.resolve()):
        lock["derived"]["origin"] = _start_facts(resume)
    else:
        lock["derived"].setdefault("origin", lock["derived"].get("resume"))  # an earlier version's
    lock["derived"]["resume"] = _start_facts(resume)
    _replace(path / LOCK, json.dumps(lock, indent=2, default=str) + "\n")


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _start_facts(resume: Resume | None) -> dict[str, Any] | None:
    return {"checkpoint": resume.folder, "file": resume.file_name, "step": resume.step} if resume else None


def derived_facts(derived: Derived, resume: Resume | None, path: Path | None = None) -> dict[str, Any]:
    """What the worker and later readers need of a derived run in ``path``, as plain values (lock.json: ``derived``)."""
    parallel, recompute = derived.config.parallel, derived.config.recompute
    return {
        "device": derived.hardware.name,
        "device_target": derived.hardware.target,
        "device_num": derived.device_num,
        "nodes": derived.config.launch.nodes,
        "devices_per_node": derived.config.launch.devices_per_node,
        "data_parallel": parallel.data_parallel,
        "model_parallel": parallel.model_parallel,
        "context_parallel": parallel.context_parallel,
        "pipeline_stage": parallel.pipeline_stage,
        "global_batch_size": derived.global_batch_size,
        "tokens_per_step": derived.tokens_per_step,
        "steps_per_epoch": derived.steps_per_epoch,
        "total_steps": derived.total_steps,
        "warmup_steps": derived.warmup_steps,
        "parameters": derived.parameters or None,
        "flops_per_token": derived.flops_per_token,
        "recomputed_flops": recomputed_flops(derived.config.model, recompute.policy, recompute.layers),
        "peak_flops": derived.peak_flops,
        "family": derived.family.name,
        "architecture": derived.family.architecture,
        "loss_scale": dataclasses.asdict(derived.loss_scale),
        "seed": derived.config.run.seed,
        "data_seed": derived.config.dataset.seed,
        "dataset": dataclasses.asdict(derived.dataset) if derived.dataset else None,
        "resume": _start_facts(resume),
        "origin": _start_facts(resume),
        "environment": environment(derived, path),
        "msrun_options": msrun_options(derived),
    }


class _Dumper(yaml.SafeDumper):
    """Plain YAML: no aliases (mindformers would share the objects), lists of scalars on one line, floats PyYAML reads back as floats."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _list(dumper: _Dumper, data: list[Any]) -> yaml.Node:
    flat = not any(isinstance(item, list | tuple | dict) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)


def _text(dumper: _Dumper, data: str) -> yaml.Node:
    # PyYAML writes Unicode's line separators bare and reads them back as spaces: in double quotes it escapes them
    style = '"' if any(separator in data for separator in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(tuple, lambda dumper, data: _list(dumper, list(data)))


def to_yaml(data: Any) -> str:
    """``data`` as YAML text, keys in their order, byte-stable."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=140)
