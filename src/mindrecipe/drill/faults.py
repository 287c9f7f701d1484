"""What is done to a run under drill. Each returns once it is done; the launcher may be gone then. Late: there was nothing left to break."""

from __future__ import annotations

import random
import signal
import stat
from collections.abc import Callable

from mindrecipe.drill.job import Job, Late

Fault = Callable[[Job, random.Random], None]


def kill_a_worker(job: Job, dice: random.Random) -> None:
    """kill -9 of a rank, as the kernel does for lack of memory."""
    _kill_one(job, dice)


def kill_the_launcher(job: Job, dice: random.Random) -> None:
    """kill -9 of `train`: its ranks must not go on without it."""
    job.kill()


def kill_while_saving(job: Job, dice: random.Random) -> None:
    """kill -9 of a rank as soon as it begins to write a checkpoint."""
    seen = sum(1 for _ in job.events("save"))
    job.until(lambda: sum(1 for _ in job.events("save")) > seen, "a checkpoint")
    _kill_one(job, dice)


def corrupt_the_newest(job: Job, dice: random.Random) -> None:
    """kill -9 of `train`, and one byte of its newest checkpoint changed before it is started again."""
    job.until(lambda: len(job.checkpoints()) > 1, "a second checkpoint")
    job.kill()
    path = job.checkpoints()[-1].files[0]
    path.chmod(path.stat().st_mode | stat.S_IWUSR)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0xFF]))


def sigterm(job: Job, dice: random.Random) -> None:
    """SIGTERM to `train`: a scheduler's notice."""
    job.launcher.send_signal(signal.SIGTERM)


def fill_the_disk(job: Job, dice: random.Random) -> None:
    """The disk of the run has no room for another byte."""
    assert job.disk is not None, "a run of its own disk"
    job.disk.fill()


def _kill_one(job: Job, dice: random.Random) -> None:
    workers = job.workers()
    if not workers:
        raise Late
    dice.choice(workers).kill()


OWN_DISK = ("disk",)
"""Faults that need a disk of their own (small_disk.py)."""
FAULTS: dict[str, Fault] = {
    "worker": kill_a_worker,
    "launcher": kill_the_launcher,
    "save": kill_while_saving,
    "corrupt": corrupt_the_newest,
    "sigterm": sigterm,
    "disk": fill_the_disk,
}
