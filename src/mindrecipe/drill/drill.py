"""The drill itself: once straight, then broken by each fault, or by several one after another; the losses must be the same bit for bit."""

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
class Hit:
    """One fault, as it struck after step ``at``. Times in seconds from the fault; ``lost`` steps had to be trained again; ``recovered``
    None: no launch has made a step after it.

    ``unfinished``: of a fault that is to come in the middle of a write the files that were not finished then; empty where it came late.
    """

    fault: str
    at: int
    detected: float | None
    lost: int
    recovered: float | None
    unfinished: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one run came to, ``hits`` in their order. ``fault`` names all that it was to suffer, joined by +; ``problem``: why it failed;
    ``not_made``: why this machine could not make the fault.
    """

    fault: str
    identical: bool
    hits: tuple[Hit, ...] = ()
    problem: str | None = None
    not_made: str | None = None

    @property
    def good(self) -> bool:
        """Nothing was lost, as far as it could be seen."""
        return self.identical or self.not_made is not None


def drill(
    overrides: Sequence[str], folder: Path, *, faults: Sequence[str], steps: int, every: int, seed: int, patience: float = 600.0
) -> Iterator[Row]:
    """Break the run of ``overrides`` once for each of ``faults``, at random steps; one row each, as it is known.

    Each is a name of FAULTS, or several joined by +, which one run suffers one after another: each as soon as it has recovered from the
    one before. Runs of ``steps`` steps with a checkpoint every ``every``, in ``folder``. The first row is of the straight run.
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
    yield Row(fault="none", identical=whole, problem=problem)
    if not whole:
        return
    for number, fault in enumerate(faults, 1):
        last = max(every + 1, steps - every - 1)
        moments = sorted(dice.randint(every + 1, last) for _ in fault.split("+"))
        yield _broken(words, folder / f"{number}_{fault}", patience, fault, moments, expected, dice)


def _broken(
    words: list[str], place: Path, patience: float, fault: str, moments: Sequence[int], expected: dict[int, float], dice: random.Random
) -> Row:
    """Begin a run and break it, once more (in ``<place>.2``, ...) where it was over before."""
    nothing = Row(fault=fault, identical=False)
    for number in range(1, _TRIES + 1):
        here = place if number == 1 else place.with_name(f"{place.name}.{number}")
        with suppress(Late):
            if not set(OWN_DISK) & set(fault.split("+")):
                return _break(Job(words, here, patience), fault, moments, expected, dice)
            try:
                with SmallDisk(here) as disk:
                    return _break(Job(words, here / "run", patience, disk), fault, moments, expected, dice)
            except NoDisk as why:
                return replace(nothing, not_made=str(why))
    return replace(nothing, problem=f"{_TRIES} runs were over before they could be broken: more --steps")


def _break(job: Job, fault: str, moments: Sequence[int], expected: dict[int, float], dice: random.Random) -> Row:
    """Late where a fault came to a run that was over, or as good as."""
    hits: list[Hit] = []
    try:
        job.start()
        for name, at in zip(fault.split("+"), moments, strict=True):
            hits.append(_strike(job, name, at, dice))
            if hits[-1].recovered is None:
                break
        code = _bring_home(job) if hits[-1].recovered is not None else job.wait()
        problem = _difference(job, expected) if code == EXIT_OK else f"exit code {code} (see {job.output})"
    except psutil.NoSuchProcess as gone:
        raise Late from gone
    except Stuck as stuck:
        problem = str(stuck)
    finally:
        job.kill()
    return Row(fault=fault, identical=problem is None, hits=tuple(hits), problem=problem)


def _strike(job: Job, fault: str, at: int, dice: random.Random) -> Hit:
    """Do one fault after step ``at``, and see the run recover from it: start it again until it has made a step."""
    job.until(lambda: job.last_step() >= at, f"step {at}")
    unfinished = FAULTS[fault](job, dice)
    struck, reached = time.time(), job.last_step()
    for start in range(_MOST_STARTS + 1):
        job.until(lambda: job.begun_after(struck) is not None or job.ended() is not None, "a step after the fault", alive=False)
        begun = job.begun_after(struck)
        if begun is not None:
            break
        if job.ended() == EXIT_OK:
            raise Late
        if start < _MOST_STARTS:
            _start_again(job)
    ends = [attempt["ended"] for attempt in job.attempts() if attempt["state"] != "completed" and (attempt["ended"] or 0) > struck]
    return Hit(
        fault=fault,
        at=reached,
        detected=ends[0] - struck if ends else None,
        lost=max(0, reached - job.resumed()),
        recovered=None if begun is None else begun - struck,
        unfinished=unfinished,
    )


def _start_again(job: Job) -> None:
    """What a scheduler does: the same command again, once there is room on its disk."""
    if job.disk is not None:
        job.disk.make_room()
    job.start()


def _bring_home(job: Job) -> int:
    """Start it again as long as it does not end well."""
    code = job.wait()
    for _ in range(_MOST_STARTS):
        if code == EXIT_OK:
            break
        _start_again(job)
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
