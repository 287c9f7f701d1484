"""How a measurement starts its trainings: in any folder, with the libraries that `train` has, of words that are whole."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from runs import make, steps

from mindrecipe.config.overrides import normalize
from mindrecipe.drill.job import Job
from mindrecipe.errors import UserError
from mindrecipe.judge import evaluate, training
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.training import Training, words_of

FOLDERS = ["plain", "naïve", "a b", "a (copy)", "a,b", "a=b", "it's", 'a"b', "a\\", "${x}", "[a]", "#1", "~a"]
#: in place of `train`: writes what it was given, and where it was looking for libraries
TELL = (
    sys.executable,
    "-c",
    "import json, os, sys; json.dump([sys.argv[1:], sys.path, os.environ.get('PYTHONSAFEPATH')], open(os.environ['TOLD'], 'w'))",
)


def said_dir(words: list[str]) -> str:
    """The run.dir that Hydra reads."""
    (word,) = (word for word in words if word.startswith("run.dir="))
    found = normalize([word])
    assert not found.findings, found.findings
    return str(OmegaConf.create({"dir": OverridesParser.create().parse_override(found.overrides[0]).value()}).dir)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_training_in_any_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "COMMAND", TELL)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    path = tmp_path / name / "run"
    assert Training(["+model=x", "run.dir=other"], path).wait() == 0
    words, _, _ = json.loads((tmp_path / "told").read_text())
    assert said_dir(words) == str(path) and said_dir(Job(["+model=x"], path, 1.0)._words) == str(path)


def test_the_users_folder_is_no_place_for_libraries(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue.py or yaml.py of the user's must not stand in for the library of that name."""
    (here / "json.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setattr(training, "COMMAND", TELL)
    monkeypatch.setenv("TOLD", str(here / "told"))
    run = Training([], here / "run")
    run.wait()
    assert (here / "told").exists() or sys.version_info < (3, 11), run.log.read_text()

    asked: list[dict[str, Any]] = []

    def started(command: list[str], **more: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(more)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", started)
    with pytest.raises(UserError, match="the evaluation failed"):
        evaluate._work(Recorded(make(here / "a", steps(3))), here)
    assert asked[0]["env"]["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize(
    "text", ["+recipe=tiny_cpu run.tags=[it's]", '+recipe=tiny_cpu run.name=a"', "+recipe=tiny_cpu it's $\"", "a=1 \\"]
)
def test_a_quote_that_is_not_closed(text: str, here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("bench", "tiny_cpu", text)
    assert done.code == 2 and "can't be cut into words" in done.err and "mend:" in done.err and not list(here.iterdir())


@pytest.mark.parametrize("text", ["run.tags=[it's]", 'run.name=a"', "a=it's $\" b=1"])
def test_what_is_to_be_typed_for_it(text: str) -> None:
    with pytest.raises(UserError) as fault:
        words_of(text)
    (pasted,) = shlex.split(str(fault.value.mend).partition("backslash: ")[2])
    assert words_of(pasted) == text.split(" ")
