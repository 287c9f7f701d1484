"""What is done to a run under drill. Each returns once it is done; the launcher may be gone then. Late: there was nothing left to break.

A fault that is to come in the middle of a write returns the files that were not finished when it came; the others None.
"""

from __future__ import annotations

import random
import signal
import stat
from collections.abc import Callable

from mindrecipe.drill.job import Job, Late
from mindrecipe.drill.midwrite import kill_in_a_write

Fault = Callable[[Job, random.Random], tuple[str, ...] | None]


def kill_a_worker(job: Job, dice: random.Random) -> None:
    """kill -9 of a rank, as the kernel does for lack of memory."""
    workers = job.workers()
    if not workers:
        raise Late
    dice.choice(workers).kill()


def kill_the_launcher(job: Job, dice: random.Random) -> None:
    """kill -9 of `train`: its ranks must not go on without it."""
    job.kill()


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


OWN_DISK = ("disk",)
"""Faults that need a disk of their own (small_disk.py)."""
FAULTS: dict[str, Fault] = {
    "worker": kill_a_worker,
    "launcher": kill_the_launcher,
    "save": kill_in_a_write,
    "corrupt": corrupt_the_newest,
    "sigterm": sigterm,
    "disk": fill_the_disk,
}
