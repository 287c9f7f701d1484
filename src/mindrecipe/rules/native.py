"""Rules of what is passed through: it has the last word, so a knob that it replaces must not pretend to act."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.config.findings import Severity
from mindrecipe.config.keys import knobs, value_of
from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.lower import Place, lower
from mindrecipe.lower.names import knob_of
from mindrecipe.lower.residue import pruned
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule

#: the modes in which mindformers trains
_MESH = ("data_parallel", "model_parallel", "context_parallel", "expert_parallel", "pipeline_stage", "micro_batch_num")
_ABSENT = object()


@rule(
    "native.shadows",
    "error",
    "devices, hosts and data would be laid out by the knob, and the model by native",
    outcome="differs",
    source="lower/residue.py: native has the last word",
    reads="dataset: files source; native; parallel: mode model_parallel",
    fails=[
        f"{LARGE} native.parallel_config.model_parallel=2",
        f"{LARGE} dataset=mindrecord 'dataset.files=[a.mindrecord]' native.train_dataset.data_loader.dataset_dir=b",
    ],
    passes=[
        f"{LARGE} native.parallel_config.model_parallel=1",
        f"{LARGE} dataset=mindrecord 'dataset.files=[b]' native.train_dataset.data_loader.dataset_dir=b",
    ],
)
def shadows(d: Derived) -> Iterator[Problem]:
    """A native key replaces what a knob says of the mesh or the files."""
    parallel, mesh = d.config.parallel, section(d.config.native, "parallel_config")
    for axis in _MESH if parallel.mode in SHARDED else ():
        if axis in mesh and mesh[axis] != getattr(parallel, axis):
            yield Problem(
                f"native.parallel_config.{axis}={mesh[axis]} replaces parallel.{axis}={getattr(parallel, axis)}",
                (f"parallel.{axis}", f"native.parallel_config.{axis}"),
                f"native.parallel_config.{axis}={getattr(parallel, axis)}",
            )
    data = d.config.dataset
    folder = section(section(d.config.native, "train_dataset"), "data_loader").get("dataset_dir")
    if data.source == "mindrecord" and folder and data.files and data.files != [folder]:
        yield Problem(
            f"native.train_dataset.data_loader.dataset_dir={folder} replaces dataset.files={data.files}",
            ("dataset.files", "native.train_dataset.data_loader.dataset_dir"),
            "native.train_dataset.data_loader.dataset_dir=null",
        )


@rule(
    "native.device",
    "error",
    "this run is prepared for the one device, and its ranks would start on the other",
    outcome="stops",
    source="run: native.context.device_target=Ascend on CPU ends in the rank",
    reads="native; omit",
    fails=[
        f"{TINY} native.context.device_target=Ascend",
        f"{LARGE} native.context.device_target=CPU",
        f"{TINY} omit.context='*'",
    ],
    passes=[f"{TINY} native.context.device_target=CPU", f"{LARGE} native.context.device_target=Ascend"],
)
def device(d: Derived) -> Iterator[Problem]:
    """The native device is not the one that the run is for."""
    written = section(d.config.native, "context")
    if "device_target" in written:
        given = written["device_target"]
    elif _is_omitted(d):
        given = "Ascend"  # mindformers' own, where none is written
    else:
        return
    if given != d.hardware.target:
        yield Problem(
            f"native.context.device_target={given}, but device={d.hardware.name} is {d.hardware.target}"
            if "device_target" in written
            else f"omit.context leaves context.device_target unwritten: mindformers takes Ascend, but this run is for {d.hardware.target}",
            ("native.context.device_target", "omit.context.device_target", "omit.context", "device.name"),
            f"native.context.device_target={d.hardware.target}",
        )


def _is_omitted(d: Derived) -> bool:
    """Whether ``omit`` takes the device out of the configuration."""
    return "device_target" not in pruned({"context": {"device_target": d.hardware.target}}, d.config.omit).get("context", {})


@rule(
    "native.replaces",
    "warning",
    "native has the last word, and what is derived, measured and compared goes by the knob",
    outcome="differs",
    source="lower/residue.py; lower/names.py",
    reads="*",
    fails=[
        f"{TINY} native.runner_config.batch_size=2",
        f"{TINY} native.seed=7",
        f"{TINY} native.lr_schedule.learning_rate=0.1",
        f"{TINY} native.model.model_config.num_layers=3",
        f"{TINY} checkpoint=steps checkpoint.save_steps=100 native.callbacks.CheckpointMonitor.save_checkpoint_steps=50",
        f"{TINY} native.runner_wrapper.scale_sense=128",
    ],
    passes=[f"{TINY} native.seed=42", f"{TINY} native.context.save_graphs=true", f"{TINY} native.callbacks.SummaryMonitor.keep=1"],
)
def replaces(d: Derived) -> Iterator[Problem]:
    """A native key has another value than the knob that is lowered to it."""
    severity: Severity | None = "advice" if d.config.run.imported_from else None  # the import took it for what no knob says
    said_elsewhere = {
        "context.device_target",
        "parallel.full_batch",
        "model.model_config.use_past",
        "train_dataset.data_loader.dataset_dir",
        *(f"parallel_config.{axis}" for axis in _MESH),
        *OVERWRITTEN,
    }
    for path, ours, theirs in replaced(d):
        knob, same = knob_of(path)
        if knob is None or path in said_elsewhere:
            continue
        key = f"native.{path}"
        mend = f"{knob}={_typed(theirs)}" if same and _fits(knob, theirs) else f"{key}={_typed(ours)}"
        value = value_of(d.config, knob)
        through = f"what {knob}={_typed(value)} is lowered to, {_typed(ours)}" if not same else f"{knob}={_typed(value)}"
        yield Problem(f"{key}={_typed(theirs)} replaces {through}", (key, knob), shlex.quote(mend) if _quotes(mend) else mend, severity)


def replaced(d: Derived) -> Iterator[tuple[str, Any, Any]]:
    """(path, lowered value, native value) of every lowered key that native changes; what it adds is not among them."""
    given = d.config.native
    if given:
        plain = dataclasses.replace(d, config=dataclasses.replace(d.config, native={}))
        yield from _changes(lower(plain, Place(output_dir="./output", train_files=("train.mindrecord",))), given, "")


def _changes(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any, Any]]:
    for key, value in theirs.items():
        below = ours.get(key, _ABSENT)
        if isinstance(below, list) and key == "callbacks" and isinstance(value, Mapping):
            below = {item["type"]: item for item in below}
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            yield from _changes(below, value, f"{prefix}{key}.")
        elif below is not _ABSENT and below != value and not (key == "callbacks" and isinstance(value, list)):
            yield f"{prefix}{key}", below, value


def _fits(knob: str, value: Any) -> bool:
    """Whether ``value`` can be given to ``knob`` at all."""
    default = knobs()[knob].default
    return value is not None and (not isinstance(value, str) or default is None or isinstance(default, str))


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _quotes(text: str) -> bool:
    return any(letter in text for letter in " '\"{}[]$")


#: what mindformers puts its own value over -> the key that has the word
OVERWRITTEN = {
    "train_dataset.batch_size": "runner_config.batch_size",
    "train_dataset.seed": "seed",
    "train_dataset_task.dataset_config": "train_dataset",
    "optimizer.learning_rate": "lr_schedule.learning_rate",
}


@rule(
    "native.overwritten",
    "warning",
    "mindformers puts another key's value in its place",
    outcome="ignored",
    source="mindformers dataset/utils.py check_dataset_config (run), trainer/base_trainer.py, tools/check_rules.py _check_mode",
    reads="*",
    fails=[f"{TINY} native.train_dataset.batch_size=4", f"{TINY} native.optimizer.learning_rate=0.1", f"{TINY} model.extra.use_past=true"],
    passes=[f"{TINY} native.train_dataset.batch_size=8", f"{TINY} native.train_dataset.numa_enable=false"],
)
def overwritten(d: Derived) -> Iterator[Problem]:
    """A native key has a value that mindformers overwrites."""
    for path, ours, theirs in replaced(d):
        if path in OVERWRITTEN:
            knob, _ = knob_of(path)
            key = f"native.{path}"
            yield Problem(
                f"{key}={_typed(theirs)} has no effect: {OVERWRITTEN[path]} is put in its place{f' ({knob})' if knob else ''}",
                (key,),
                f"{knob}={_typed(theirs)}" if knob and _fits(knob, theirs) else f"{key}={_typed(ours)}",
                "advice" if d.config.run.imported_from else None,
            )
    model = section(section(d.config.native, "model"), "model_config")
    for key, value in (("native.model.model_config.use_past", model), ("model.extra.use_past", d.config.model.extra)):
        if value.get("use_past") is True:
            yield Problem(f"{key}=true has no effect: it is for generation, and training sets it to false", (key,), f"{key}=false")


def section(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping under ``key``; empty where there is none."""
    value = tree.get(key)
    return value if isinstance(value, Mapping) else {}
