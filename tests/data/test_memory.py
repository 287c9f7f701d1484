"""A corpus of any size is built in bounded memory: measured as the peak of the builder's whole process tree."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from corpora import make_spec

from mindrecipe.data import api
from mindrecipe.data.progress import Progress

pytestmark = pytest.mark.e2e
LIMIT = {"bytes": 600 << 20, "bpe": 800 << 20}  # a trained BPE needs 480 MiB for itself and the builder


def proportional_bytes(pid: int) -> int:
    """Memory of a process, shared pages by their share: a child between fork and exec (mindspore runs lscpu) does not count twice."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # ended between being listed and being asked
        return 0
    return next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


class TreeMemory(threading.Thread):
    """Samples the memory of the children this process starts from now on, and theirs; not what another test has left behind."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = self.samples = 0
        self._others = set(psutil.Process().children())
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.01):
            held = sum(proportional_bytes(each.pid) for each in self._of_this())
            self.peak, self.samples = max(self.peak, held), self.samples + 1

    def _of_this(self) -> Iterator[psutil.Process]:
        for child in set(psutil.Process().children()) - self._others:
            yield child
            with contextlib.suppress(psutil.NoSuchProcess):
                yield from child.children(recursive=True)

    def __enter__(self) -> TreeMemory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def write_corpus(path: Path, size: int) -> None:
    """Made-up prose, turned by a random number of lines each time it is repeated, until the file has ``size`` bytes."""
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 9))) for _ in range(30_000)]
    lines = [" ".join(rng.choices(words, k=rng.randint(5, 20))) + "\n" for _ in range(50_000)]
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < size:
            turn = rng.randrange(len(lines))
            turned = lines[turn:] + lines[:turn]
            if path.suffix == ".txt":
                file.writelines(turned)
            else:
                file.writelines(json.dumps({"text": "".join(turned[at : at + 40])}) + "\n" for at in range(0, len(turned), 40))


def ignore(progress: Progress) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "megabytes", "tokenizer"), [("large.txt", 1000, "bytes"), ("large.jsonl", 200, "bytes"), ("small.txt", 24, "bpe")]
)
def test_a_large_file_is_built_in_bounded_memory(tmp_path: Path, cache: Path, name: str, megabytes: int, tokenizer: str) -> None:
    path = tmp_path / name
    write_corpus(path, megabytes * 1_000_000)
    spec = make_spec(cache, files=(str(path),), tokenizer=tokenizer, seq_length=2048)
    started = time.monotonic()
    with TreeMemory() as memory:
        facts = api.build(spec, ignore)
    seconds, tokens = time.monotonic() - started, facts.train_tokens + facts.heldout_tokens
    print(f"{name}: {tokens / 1e6:.0f} M tokens in {seconds:.0f} s, {tokens / seconds / 1e6:.1f} M/s, peak {memory.peak >> 20} MiB")
    assert memory.samples > 100 and 200 << 20 < memory.peak < LIMIT[tokenizer]
    assert tokens > megabytes * (900_000 if tokenizer == "bytes" else 200_000)
    assert 0.05 < facts.heldout_tokens / tokens < 0.15
    os.remove(path)
