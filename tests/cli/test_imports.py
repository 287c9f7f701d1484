"""The launcher's side never imports mindspore or mindformers, whichever verb is asked for: they cost seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("here")
_HEAVY = ("mindspore", "mindformers", "transformers", "datasets", "torch", "pyarrow", "tokenizers", "numpy")
_SCRIPT = """
import contextlib, io, json, runpy, sys
for words in json.loads(sys.argv[1]):
    sys.argv[:] = words
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            if words[0] == "import":
                __import__(words[1])
            else:
                import importlib
                module = {"mindrecipe": "mindrecipe.cli.main", "train": "mindrecipe.cli.train"}[words[0]]
                importlib.import_module(module).main()
        except SystemExit as ended:
            code = ended.code or 0
    print(json.dumps([words, sorted(sys.modules)]))
"""


def _modules_after(commands: list[list[str]]) -> list[tuple[list[str], set[str]]]:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, json.dumps(commands)], capture_output=True, text=True, timeout=300, check=True)
    return [(words, {name.split(".")[0] for name in names}) for words, names in map(json.loads, done.stdout.splitlines())]


@pytest.mark.parametrize(
    "commands",
    [
        [
            ["import", "mindrecipe"],
            ["import", "mindrecipe.run"],
            ["mindrecipe", "ls"],
            ["mindrecipe", "show"],
            ["mindrecipe", "show", "+recipe=tiny_cpu", "--json"],
            ["mindrecipe", "check", "+model=llama2_7b", "parallel=semi_auto", "amp=O2"],
            ["mindrecipe", "check", "amp=O4"],
            ["mindrecipe", "export", "+model=qwen3_8b", "parallel=semi_auto"],
            ["mindrecipe", "cp", "tiny_cpu", "mine"],
            ["mindrecipe", "--help"],
        ],
        [["train", "--help"], ["train", "+model=llama2_7b", "parallel=semi_auto", "amp=O2"]],
    ],
    ids=["mindrecipe", "train"],
)
def test_neither_mindspore_nor_mindformers_is_imported(commands: list[list[str]]) -> None:
    seen = _modules_after(commands)
    assert len(seen) == len(commands)
    for words, modules in seen:
        assert not modules & set(_HEAVY[:5]), words


def test_only_the_verb_that_is_asked_for_is_imported() -> None:
    script = "import sys\nsys.argv = ['mindrecipe', 'ls', 'amp']\nfrom mindrecipe.cli.main import main\ntry:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    names = set(done.stderr.split())
    assert "mindrecipe.cli.ls" in names
    assert not names & {"mindrecipe.cli.show", "mindrecipe.cli.export", "mindrecipe.run", "mindrecipe.lower", "mindrecipe.launch"}


def test_nothing_heavy_is_imported_to_check() -> None:
    """What the start-up time of `check` is made of: no numpy, pyarrow, tokenizers either."""
    ((_, modules),) = _modules_after([["mindrecipe", "check", "+recipe=tiny_cpu"]])
    assert not modules & set(_HEAVY)


def test_the_package_is_light(here: Path) -> None:
    """A rank imports mindrecipe too: the package alone brings neither Hydra nor OmegaConf."""
    ((_, modules),) = _modules_after([["import", "mindrecipe"]])
    assert not modules & {"hydra", "omegaconf", "rich", "typer"}
    assert list(here.iterdir()) == []
