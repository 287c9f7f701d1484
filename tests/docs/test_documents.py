"""Every command in the documents runs: taken from their code blocks, in the order they stand there, in one folder per document."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: appended to trainings so that each is a few steps of a thin model; the learning of a whole run is asserted in tests/cli/test_train_e2e.py
SHORT = ["schedule.total_steps=15", "evaluate.max_batches=2"]
#: a run that goes on from one of those needs steps that are left
LONGER = ["schedule.total_steps=20", "evaluate.max_batches=2"]


def commands(text: str) -> list[list[str]]:
    """The words of each `train` and `mindrecipe` line in fenced blocks; a `$ ` prompt and comments are no part of it."""
    found = []
    for block in re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            command = line.removeprefix("$ ")
            if command.startswith(("train ", "mindrecipe ")):
                found.append(shlex.split(command, comments=True))
    return found


DOCUMENTS = [
    name
    for name in ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
    if commands((ROOT / name).read_text(encoding="utf-8"))
]


def expected(words: list[str]) -> int:
    """2 for the two commands that show a refusal."""
    needs_npus = words[0] == "train" and "+model=llama2_7b" in words
    wrong = "model.num_layer=30" in words
    return 2 if needs_npus or wrong else 0


def allowed(words: list[str]) -> set[int]:
    """Verdicts on a machine that is whatever it is have their own exit codes; 2 is a wrong command."""
    verdicts = {"compare": {0, 1, 3, 4}, "diagnose": {0, 1}}
    return verdicts.get(words[1], set()) if words[0] == "mindrecipe" and words[1] in verdicts else {expected(words)}


def shortened(words: list[str]) -> list[str]:
    if words[0] != "train" or "--cfg" in words or expected(words) != 0:
        return words
    thin = [] if {"launch=simulate", "rehearse=mini"} & set(words) else ["model.num_layers=1"]
    return [*words, *thin, *(LONGER if any(word.startswith("checkpoint.resume") for word in words) else SHORT)]


def test_both_readmes_have_the_same_commands() -> None:
    english, chinese = (commands((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "README.zh-CN.md"))
    assert english == chinese
    assert len(english) > 12


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of(document: str, tmp_path: Path) -> None:
    found = commands((ROOT / document).read_text(encoding="utf-8"))
    assert found
    for words in found:
        ran = shortened(words)
        done = subprocess.run([str(BIN / ran[0]), *ran[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        said = f"{shlex.join(ran)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.returncode in allowed(words), said
        assert "Traceback" not in done.stderr, said
