"""The rule of values under native that are of another kind than mindformers reads there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.errors import UserError
from mindrecipe.lower import Place, lower
from mindrecipe.rules.registry import TINY, Problem, rule

#: numbers that mindformers or MindSpore also take by a name
_BY_NAME = {"parallel.parallel_mode", "context.mode"}


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
    fails=[f"{TINY} native.context.max_call_depth=abc", f"{TINY} native.train_dataset.repeat=once", f"{TINY} native.seed=lucky"],
    passes=[f"{TINY} native.context.max_call_depth=2000", f"{TINY} native.parallel.parallel_mode=data_parallel"],
)
def text_for_number(d: Derived) -> Iterator[Problem]:
    """A word stands under native where a number is read."""
    words = dict(_words(d.config.native, ""))
    if not words:
        return
    try:
        ours = lower(
            dataclasses.replace(d, config=dataclasses.replace(d.config, native={})),
            Place(output_dir="./output", train_files=("train.mindrecord",)),
        )
    except UserError:
        return  # it says itself what it lacks
    for path, word in words.items():
        number = _at(ours, path)
        if type(number) in (int, float) and path not in _BY_NAME:
            yield Problem(f"native.{path}={word!r} is no number", (f"native.{path}",), f"native.{path}={number}")


def _words(tree: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _words(value, f"{path}{key}.")
        elif isinstance(value, str):
            yield f"{path}{key}", value


def _at(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree
