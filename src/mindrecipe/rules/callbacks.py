"""Rules of callbacks that are named under native: classes that exist, and arguments they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mindrecipe.config.keys import nearest_word
from mindrecipe.derive import Derived
from mindrecipe.lower.parts import CALLBACKS, OPEN_CALLBACKS
from mindrecipe.rules.registry import TINY, Problem, rule
from mindrecipe.rules.unknown import unlike


@rule(
    "native.callback",
    "error",
    "mindformers builds the callbacks last: the ranks stop after the model is built",
    outcome="stops",
    source="mindformers core/callback/build_callback.py (its registry), and the constructors of its classes and of mindspore.train's",
    reads="native; run: imports",
    fails=[
        f"{TINY} native.callbacks.SDCMonitors.step_interval=3",
        f"{TINY} native.callbacks.CheckpointMonitor.save_steps=3",
        f"{TINY} 'native.callbacks=[{{type: TrainCallBack, stop_step: 300, verbose: true}}]'",
    ],
    passes=[
        f"{TINY} native.callbacks.Mine.x=3 run.imports=[my_package]",
        f"{TINY} native.callbacks.CheckpointMonitor.integrated_save=false",
    ],
)
def callback(d: Derived) -> Iterator[Problem]:
    """A callback is named that there is not, or given an argument that it does not take."""
    given = d.config.native.get("callbacks")
    for path, name, arguments in _given(given):
        known = CALLBACKS.get(name)
        if known is not None:
            found = unlike(path, arguments, {"type", *known}, f"{name} has no such argument")
        elif name not in OPEN_CALLBACKS and not d.config.run.imports:
            near = nearest_word(name, [*CALLBACKS, *OPEN_CALLBACKS], 1)
            what = f"native.{path}: mindformers has no callback {name}{f', but {near[0]}' if near else ''}"
            keys = (f"native.{path}", *(f"native.{path}.{key}" for key in arguments))
            found = iter([Problem(what, keys, f"~native.{path}; one of yours: run.imports=[your_module]")])
        else:
            continue
        for problem in found:  # an entry of a list can't be taken out by an override
            yield problem if isinstance(given, Mapping) else replace(problem, keys=("native.callbacks",), mend="native.callbacks={}")


def _given(callbacks: Any) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Path under native, class and arguments of each: of a list that replaces mindformers' own, or of a mapping that is laid over it."""
    if isinstance(callbacks, Mapping):
        for name, arguments in callbacks.items():
            yield f"callbacks.{name}", str(name), arguments if isinstance(arguments, Mapping) else {}
    elif isinstance(callbacks, list):
        for item in callbacks:
            if isinstance(item, Mapping) and isinstance(item.get("type"), str):
                yield "callbacks", item["type"], item
