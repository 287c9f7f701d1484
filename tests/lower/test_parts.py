"""What lower/parts.py says of optimizers and callbacks, held against the installed sources, which are read and not imported."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindrecipe.lower.parts import CALLBACKS, FUSED, LOSS_MONITOR, OPTIMIZERS

#: given by the trainer
GIVEN = {"params", "learning_rate"}


def classes(package: str, folder: str, function: str = "__init__") -> Iterator[tuple[str, set[str], bool]]:
    """Each class of the files of a folder: its name, its constructor's arguments, whether it takes any others."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    for path in sorted((Path(found.origin).parent / folder).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name == function:
                        arguments = {argument.arg for argument in (*inner.args.args[1:], *inner.args.kwonlyargs)}
                        yield node.name, arguments, inner.args.kwarg is not None


def test_arguments_of_optimizers() -> None:
    # AdamW and PmaAdamW are chosen by __new__, which takes what any of the classes behind it does
    real = {name: arguments for name, arguments, _ in classes("mindspore", "nn/optim")}
    real |= {name: arguments for name, arguments, _ in classes("mindformers", "core/optim")}
    real |= {name: arguments - FUSED for name, arguments, _ in classes("mindformers", "core/optim", "__new__")}
    real["Adam"] |= {"use_lazy", "use_offload"}  # its **kwargs, which it checks by name
    by_lower_case = {name.lower(): name for name in real}
    for name, known in OPTIMIZERS.items():
        assert real[by_lower_case[name.lower()]] - GIVEN == known, name


def test_arguments_of_callbacks() -> None:
    found = [*classes("mindspore", "train/callback"), *classes("mindformers", "core/callback")]
    real = {name: (arguments, open_) for name, arguments, open_ in found}
    real |= {name: (arguments, open_) for name, arguments, open_ in classes("mindformers", "core/callback", "__new__")}
    for name, known in CALLBACKS.items():
        assert real.get(name, (set(), False)) == (known, False), name
    assert real["MFLossMonitor"] == (LOSS_MONITOR - {"is_moe_model", "is_mtp_model"}, True)
