"""The drill itself: once straight, then once for each fault; the losses must be the same bit for bit."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from mindrecipe.drill.faults import FAULTS, OWN_DISK
from mindrecipe.drill.job import Job, Late, Stuck
from mindrecipe.drill.small_disk import NoDisk, SmallDisk
from mindrecipe.errors import EXIT_OK

_MOST_STARTS = 4
_TRIES = 5  # a run of a few milliseconds a step may be over before it is broken: another one is begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one fault came to. Times in seconds from the fault; ``lost`` steps had to be trained again; ``problem``: why it failed;
    ``not_made``: why this machine could not make the fault.
    """

    fault: str
    at: int
    detected: float | None
    lost: int | None
    recovered: float | None
    identical: bool
    problem: str | None = None
    not_made: str | None = None

    @property
    def good(self) -> bool:
        """Nothing was lost, as far as it could be seen."""
        return self.identical or self.not_made is not None


def drill(
    overrides: Sequence[str], folder: Path, *, faults: Sequence[str], steps: int, every: int, seed: int, patience: float = 600.0
) -> Iterator[Row]:
    """Break the run of ``overrides`` once with each of ``faults`` (names of FAULTS), at random steps; one row each, as it is known.

    Runs of ``steps`` steps with a checkpoint every ``every``, in ``folder``. The first row is of the straight run.
    """
    words = [*overrides, f"schedule.total_steps={steps}", "checkpoint=steps", f"checkpoint.save_steps={every}", "evaluate=off"]
    words += ["launch.max_restarts=3", "launch.restart_backoff=0", "monitor.console=plain"]
    dice = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    straight = Job(words, folder / "straight", patience)
    straight.start()
    try:
        code = straight.wait()
    finally:
        straight.kill()
    expected = {record.step: record.loss for record in straight.trained()}
    whole = code == EXIT_OK and sorted(expected) == list(range(1, steps + 1))
    problem = None if whole else f"exit code {code}, {len(expected)} of {steps} steps (see {straight.output})"
    yield Row(fault="none", at=steps, detected=None, lost=None, recovered=None, identical=whole, problem=problem)
    if not whole:
        return
    for number, fault in enumerate(faults, 1):
        at = dice.randint(every + 1, max(every + 1, steps - every - 1))
        yield _broken(words, folder / f"{number}_{fault}", patience, fault, at, expected, dice)


def _broken(words: list[str], place: Path, patience: float, fault: str, at: int, expected: dict[int, float], dice: random.Random) -> Row:
    """Begin a run and break it, once more (in ``<place>.2``, ...) where it was over before."""
    nothing = Row(fault=fault, at=at, detected=None, lost=None, recovered=None, identical=False)
    for number in range(1, _TRIES + 1):
        here = place if number == 1 else place.with_name(f"{place.name}.{number}")
        with suppress(Late):
            if fault not in OWN_DISK:
                return _break(Job(words, here, patience), fault, at, expected, dice)
            try:
                with SmallDisk(here) as disk:
                    return _break(Job(words, here / "run", patience, disk), fault, at, expected, dice)
            except NoDisk as why:
                return replace(nothing, not_made=str(why))
    return replace(nothing, problem=f"{_TRIES} runs were over before they could be broken: more --steps")


def _break(job: Job, fault: str, at: int, expected: dict[int, float], dice: random.Random) -> Row:
    """Late where the fault came to a run that was over, or as good as."""
    detected = recovered = None
    lost = None
    try:
        job.start()
        job.until(lambda: job.last_step() >= at, f"step {at}")
        FAULTS[fault](job, dice)
        struck, reached = time.time(), job.last_step()
        code = _bring_home(job)
        ends = [attempt["ended"] for attempt in job.attempts() if attempt["state"] != "completed" and (attempt["ended"] or 0) > struck]
        detected = ends[0] - struck if ends else None
        steps_again = [event.time for event in job.events("train") if event.time > struck]
        recovered = steps_again[0] - struck if steps_again else None
        if code == EXIT_OK and not steps_again:
            raise Late
        lost = max(0, reached - job.resumed())
        problem = _difference(job, expected) if code == EXIT_OK else f"exit code {code} (see {job.output})"
        return Row(fault=fault, at=reached, detected=detected, lost=lost, recovered=recovered, identical=problem is None, problem=problem)
    except psutil.NoSuchProcess as gone:
        raise Late from gone
    except Stuck as stuck:
        return Row(fault=fault, at=at, detected=detected, lost=lost, recovered=recovered, identical=False, problem=str(stuck))
    finally:
        job.kill()


def _bring_home(job: Job) -> int:
    """What a scheduler does: the same command again as long as it does not end well, once there is room on its disk."""
    code = job.wait()
    for _ in range(_MOST_STARTS):
        if code == EXIT_OK:
            break
        if job.disk is not None:
            job.disk.make_room()
        job.start()
        code = job.wait()
    return code


def _difference(job: Job, expected: dict[int, float]) -> str | None:
    """What every launch has trained, steps trained twice included, against the straight run; None where it is the same."""
    trained = job.trained()
    missing = set(expected) - {record.step for record in trained}
    if missing:
        return f"step {min(missing)} was never trained"
    for record in trained:
        if record.loss != expected[record.step]:
            return f"step {record.step}: loss {record.loss!r} instead of {expected[record.step]!r}"
    return None
