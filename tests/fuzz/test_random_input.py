"""A small share of the fuzzer (fuzzer.py) at each run of the tests; by hand: python tests/fuzz/fuzzer.py --commands 20000 --files 5000."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fuzz.fuzzer import KINDS, changed_file, command_line, commands, ended, files, native_keys, own_seeds
from mends import LARGE, quick
from mindrecipe.errors import UserError

COMMANDS, FILES = 60, 40


def test_random_command_lines_are_told_or_taken() -> None:
    codes: Counter[int | None] = Counter()
    assert list(commands(1, COMMANDS, codes)) == []
    assert sum(codes.values()) == COMMANDS and codes[0] and codes[2], "some are sound and some are not"


def test_changed_files_are_told_or_taken() -> None:
    codes: Counter[int | None] = Counter()
    assert list(files(1, FILES, own_seeds(), codes)) == []
    assert sum(codes.values()) == FILES and codes[2]


@pytest.mark.parametrize("words", [["recipe=1", f"amp={'x' * 3000}"]])
def test_what_it_found_once(words: list[str]) -> None:
    code, said, _ = ended(["check", *words])
    assert code == 2 and "Traceback" not in said


def test_a_seed_makes_the_same_again() -> None:
    assert command_line(random.Random(7)) == command_line(random.Random(7))
    assert changed_file(random.Random(7), own_seeds()) == changed_file(random.Random(7), own_seeds())


@pytest.mark.parametrize("seed", range(4))
def test_as_processes(seed: int, tmp_path: Path) -> None:
    words = [word.replace("\x00", "") for word in command_line(random.Random(seed))]
    words = [word.encode(errors="surrogateescape").decode(errors="replace") for word in words]
    done = subprocess.run(
        [sys.executable, "-c", "from mindrecipe.cli.main import main; main()", "check", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("here")
def test_every_native_key_takes_a_value_of_every_kind_or_says_so() -> None:
    """Each key with another kind each time; python tests/fuzz/fuzzer.py draws them among other words."""
    for at, key in enumerate(native_keys()):
        for base in (("+model=llama2_tiny",), (*LARGE, "parallel.pipeline_stage=2", "parallel.micro_batch_num=4")):
            for place, kind in (("native", at), ("native", at + 7), ("omit", at)):
                word = f"{place}.{key}={KINDS[kind % len(KINDS)]}"
                try:
                    quick(*base, word).check()
                except UserError:
                    pass
                except Exception as fault:
                    raise AssertionError(word) from fault
