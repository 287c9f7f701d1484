"""Rules of values under native that are of another kind than mindformers reads there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.errors import UserError
from mindrecipe.lower import Place, lower
from mindrecipe.rules.registry import TINY, Problem, rule

#: numbers that mindformers or MindSpore also take by a name, or that a mapping describes
_BY_NAME = {"parallel.parallel_mode", "context.mode", "runner_wrapper.scale_sense", "lr_schedule.learning_rate", "optimizer.learning_rate"}
#: of what lies within sections, what mindformers can't do without; all else may be null
_NEEDED = {"model.model_config", "model.arch", "train_dataset.data_loader"}


@rule(
    "native.text_for_number",
    "error",
    "mindformers hands it on as it is, and what gets it computes with it",
    outcome="stops",
    source=(
        "run: with a word for one of them, 25 of the 56 numbers of a lowered Llama end mindformers before the network is built or in it; "
        "the others are read later, by the data set, the optimizer and the training, or by nothing"
    ),
    reads="*",
    fails=[
        f"{TINY} native.context.max_call_depth=abc",
        f"{TINY} native.train_dataset.repeat=once",
        f"{TINY} native.seed=lucky",
        f"{TINY} native.runner_config.gradient_accumulation_steps=two",
        f"{TINY} native.runner_config.epochs=[1]",
    ],
    passes=[f"{TINY} native.context.max_call_depth=2000", f"{TINY} native.parallel.parallel_mode=data_parallel"],
)
def text_for_number(d: Derived) -> Iterator[Problem]:
    """A word, or a list, stands under native where a number is read."""
    for path, ours, theirs in _both(d):
        if type(ours) in (int, float) and isinstance(theirs, str | list | Mapping) and path not in _BY_NAME:
            yield Problem(f"native.{path}={theirs!r} is no number", (f"native.{path}",), f"native.{path}={ours}")


@rule(
    "native.kind",
    "error",
    "mindformers reads a section there, or callbacks one by one: it ends with a TypeError, or goes without what the knobs say",
    outcome="stops",
    source="mindformers tools/register/template.py ConfigTemplate, core/callback/build_callback.py build_callback",
    reads="*",
    fails=[
        f"{TINY} native.runner_config=3",
        f"{TINY} native.train_dataset=[1]",
        f"{TINY} native.model.model_config=large",
        f"{TINY} native.context=null",
        f"{TINY} native.callbacks.SDCMonitor=true",
        f"{TINY} native.callbacks=[MFLossMonitor]",
        f"{TINY} native.callbacks=MFLossMonitor",
    ],
    passes=[f"{TINY} native.callbacks.SDCMonitor={{}}", f"{TINY} native.runner_config.sink_mode=false"],
)
def kind(d: Derived) -> Iterator[Problem]:
    """Something else stands under native where a section is read, or a list of callbacks."""
    for path, ours, theirs in _both(d):
        if _is_section(path, ours) and not isinstance(theirs, Mapping) and (theirs is not None or "." not in path or path in _NEEDED):
            yield Problem(f"native.{path}={_shown(theirs)} is no section", (f"native.{path}",), f"native.{path}={{}}")
        elif path.endswith(".type") and isinstance(theirs, list | Mapping):
            yield Problem(f"native.{path}={_shown(theirs)} is no name of a class", (f"native.{path}",), f"native.{path}={ours}")
        elif path == "callbacks":
            yield from _callbacks(theirs)


def _is_section(path: str, ours: Any) -> bool:
    """Not of patterns to recompute and loss scales, which are mappings, lists or plain values."""
    return isinstance(ours, Mapping) and path not in _BY_NAME and not path.startswith("recompute_config.")


def _callbacks(given: Any) -> Iterator[Problem]:
    if isinstance(given, Mapping):
        for name, arguments in given.items():
            if arguments is not None and not isinstance(arguments, Mapping):
                key = f"native.callbacks.{name}"
                yield Problem(f"{key}={_shown(arguments)} are no arguments of a callback", (key,), f"{key}={{}}")
    elif given is not None and not isinstance(given, list):
        yield Problem(f"native.callbacks={_shown(given)} is no list of callbacks", ("native.callbacks",), "native.callbacks={}")
    elif given:
        wrong = [item for item in given if not isinstance(item, Mapping) or not isinstance(item.get("type"), str)]
        if wrong:
            what = f"native.callbacks holds {_shown(wrong[0])}, which names no callback by a `type:`"
            yield Problem(what, ("native.callbacks",), "native.callbacks={}")


def _shown(value: Any) -> str:
    return "null" if value is None else repr(value)


def _both(d: Derived) -> Iterator[tuple[str, Any, Any]]:
    """(path, lowered value, native value) of every lowered key that native writes: of a section first itself, then what is in it."""
    if not d.config.native:
        return
    try:
        ours = lower(
            dataclasses.replace(d, config=dataclasses.replace(d.config, native={}, omit={})),
            Place(output_dir="./output", train_files=("train.mindrecord",)),
        )
    except UserError:
        return  # it says itself what it lacks
    yield from _pairs(ours, d.config.native, "")


def _pairs(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    for key, value in theirs.items():
        if key not in ours:
            continue
        yield f"{path}{key}", ours[key], value
        if isinstance(ours[key], Mapping) and isinstance(value, Mapping):
            yield from _pairs(ours[key], value, f"{path}{key}.")
