"""What lower/known.py and lower/names.py say, held against the installed sources, which are read and not imported."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from mends import LARGE, TINY, quick
from mindrecipe.bridge.compare import dotted
from mindrecipe.bridge.raise_ import raise_tree
from mindrecipe.config.keys import knobs
from mindrecipe.lower.known import GENERATION, LLAMA, PARALLEL, SCHEDULES
from mindrecipe.lower.names import IN_OTHER_WORDS, KNOBS, MODEL_KNOBS, knob_of

pytestmark = pytest.mark.usefixtures("here")


def source(package: str, file: str) -> ast.Module:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return ast.parse((Path(found.origin).parent / file).read_text(encoding="utf-8"))


def constructors(module: ast.Module) -> dict[str, set[str]]:
    """Class -> the arguments of its constructor by name, without self and **kwargs."""
    found = {}
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                    found[node.name] = {argument.arg for argument in (*inner.args.args[1:], *inner.args.kwonlyargs)}
    return found


def test_keys_of_the_parallel_context() -> None:
    module = source("mindspore", "parallel/_auto_parallel_context.py")
    (table,) = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_set_auto_parallel_context_func_map"
    ]
    assert isinstance(table, ast.Dict)
    assert {key.value for key in table.keys if isinstance(key, ast.Constant)} == PARALLEL


def test_arguments_of_schedules() -> None:
    real = constructors(source("mindformers", "core/lr/lr_schedule.py"))
    for name, known in SCHEDULES.items():
        assert real[name] - {"total_steps"} == known - {"type", "warmup_epochs", "total_steps"}, name


def test_arguments_of_llama() -> None:
    real = constructors(source("mindformers", "models/llama/llama_config.py"))["LlamaConfig"]
    assert real <= {*LLAMA, *GENERATION}


@pytest.mark.parametrize("base", [(TINY, "device=cpu"), LARGE, ("+model=qwen3_8b", "parallel=semi_auto")], ids=["tiny", "llama", "qwen3"])
def test_knobs_of_lowered_keys_are_those_an_import_finds(base: tuple[str, ...]) -> None:
    """Where importing takes a lowered key for a knob, a message about the key names that knob, but for a few that share one."""
    raised = raise_tree(quick(*base, "checkpoint=steps", "schedule.total_steps=2000").lower(), {})
    named = {dotted(path): knob for path, knob in raised.sources.items()}
    differ = {
        path: (knob, knob_of(path)[0])
        for path, knob in named.items()
        if knob_of(path)[0] != knob and not path.startswith("parallel_config.")
    }
    assert differ == {}


def test_every_knob_that_is_named_is_one() -> None:
    assert {*KNOBS.values(), *MODEL_KNOBS.values(), *IN_OTHER_WORDS.values()} <= set(knobs())
