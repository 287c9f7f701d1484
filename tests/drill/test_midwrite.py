"""The kill that is to come in the middle of a write, against processes that do nothing but write."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mindrecipe.checkpoints.manifest import begin, half_written
from mindrecipe.drill.job import Job, Late
from mindrecipe.drill.midwrite import kill_in_a_write

WRITES = """
import os, sys, time
folder = sys.argv[1]
print("ready", flush=True)
while True:
    with open(f"{folder}/a.tmp", "wb") as file:
        for _ in range(3):
            file.write(b"x" * 999)
            time.sleep(0.001)
    os.rename(f"{folder}/a.tmp", f"{folder}/a.ckpt")
    time.sleep(0.002)
    os.unlink(f"{folder}/a.ckpt")
    time.sleep(0.01)
"""
IDLES = 'import time; print("ready", flush=True); time.sleep(600)'


class Writing(Job):
    """Ranks that are these processes; with each look at it another checkpoint has been begun where ``quick``."""

    def __init__(self, folder: Path, scripts: list[str], *, quick: bool = False) -> None:
        super().__init__([], folder / "run", 60.0)
        begin(self.checkpoint_folder)
        self.children = []
        self.quick, self.seen = quick, 0
        for rank, script in enumerate(scripts):
            place = self.checkpoint_folder / f"rank_{rank}"
            place.mkdir()
            line = [sys.executable, "-c", script, str(place)]
            child = subprocess.Popen(line, env={**os.environ, "RANK_ID": str(rank)}, stdout=subprocess.PIPE)
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            self.children.append(child)

    def workers(self) -> list[psutil.Process]:
        return [psutil.Process(child.pid) for child in self.children]

    def saves(self) -> int:
        self.seen += self.quick
        return self.seen

    @property
    def checkpoint_folder(self) -> Path:
        return self.base / "checkpoint"


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Writing]:
    scripts, quick = request.param
    made = Writing(tmp_path, scripts, quick=quick)
    yield made
    for child in made.children:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("job", [([WRITES], False)], indirect=True)
def test_what_is_told_is_there_when_the_rank_is_dead(job: Writing) -> None:
    told = kill_in_a_write(job, random.Random(1))
    assert job.children[0].wait(60) == -9
    assert told and told == tuple(path.name for path in half_written(job.checkpoint_folder))


@pytest.mark.parametrize("job", [([IDLES, WRITES, IDLES], False)], indirect=True)
def test_it_is_the_rank_that_writes(job: Writing) -> None:
    assert kill_in_a_write(job, random.Random(1))
    assert job.children[1].wait(60) == -9
    for idle in (job.children[0], job.children[2]):
        assert idle.poll() is None and psutil.Process(idle.pid).status() != psutil.STATUS_STOPPED, "the others go on"


@pytest.mark.parametrize("job", [([IDLES], True)], indirect=True)
def test_saves_that_are_always_over(job: Writing) -> None:
    """Nothing is ever seen half-written: a kill all the same, told for what it was."""
    assert kill_in_a_write(job, random.Random(1)) == ()
    assert job.children[0].wait(60) == -9


@pytest.mark.parametrize("job", [([], True)], indirect=True)
def test_nobody_is_left(job: Writing) -> None:
    with pytest.raises(Late):
        kill_in_a_write(job, random.Random(1))
