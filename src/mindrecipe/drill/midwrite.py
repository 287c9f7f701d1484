"""A kill in the middle of writing a checkpoint: seen in the file system, looked at again while every rank stands still, then made.

A small model is written in a few milliseconds: whoever waits for the news that a save begins comes when it is over. Here the
checkpoint folder is looked at every millisecond. What is seen may be finished a moment later, so the ranks are stopped (SIGSTOP),
and only what is unfinished then counts: nothing can finish it before the kill.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from mindrecipe.checkpoints.manifest import half_written
from mindrecipe.drill.job import Job, Late, Stuck

_SOON = 0.001
_SAVES = 4  # a kill that comes too late for one save waits for the next, for so many
_STANDS_WITHIN = 10.0
_OF_RANK = re.compile(r"rank_(\d+)|-(\d{7})-\d{7}")


def kill_in_a_write(job: Job, dice: random.Random) -> tuple[str, ...]:
    """kill -9 of a rank that has written a part of its checkpoint: the files that were not finished, by their names.

    Empty where every save was over before it could be caught: the kill came after one then. Late where there is nobody to kill.
    """
    ranks, folder = job.workers(), job.checkpoint_folder
    saved, missed = job.saves(), 0

    def seen() -> bool:
        nonlocal missed
        missed = job.saves() - saved
        return missed > _SAVES or bool(half_written(folder))

    deadline = time.monotonic() + job.patience
    while missed <= _SAVES:
        if not ranks:
            raise Late
        if time.monotonic() > deadline:
            raise Stuck(f"nobody finishes what lies unfinished in {folder}")
        job.until(seen, "a checkpoint", poll=_SOON)
        with standing_still(ranks):
            left = half_written(folder)
            writers = [rank for rank in ranks if any(_is_of(path, rank) for path in left)]
            if writers:
                dice.choice(writers).kill()
                return tuple(sorted(path.name for path in left))
    dice.choice(ranks).kill()
    return ()


@contextmanager
def standing_still(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Every thread of ``processes`` is stopped inside; those that are alive go on afterwards. Stuck where one does not stop."""
    try:
        for process in processes:
            process.suspend()
        deadline = time.monotonic() + _STANDS_WITHIN
        while not all(_stands(process.pid) for process in processes):
            if time.monotonic() > deadline:
                raise Stuck(f"a rank did not stand still within {_STANDS_WITHIN:g} s of SIGSTOP")
            time.sleep(_SOON)
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def _stands(pid: int) -> bool:
    """SIGSTOP reaches the threads one by one: one that waits for the disk finishes that first."""
    states = []
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # a thread that ended
            states.append(task.read_text().rpartition(")")[2].split()[0])
    return all(state in "TtZX" for state in states)


def _is_of(path: Path, rank: psutil.Process) -> bool:
    """Whether a file below the checkpoint folder is of that rank; one that does not say whose it is may be anybody's."""
    found = _OF_RANK.search(f"{path.parent.name}/{path.name}")
    return found is None or int(found[1] or found[2]) == int(rank.environ().get("RANK_ID") or 0)
