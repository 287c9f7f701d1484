"""The life of one rank, from the frozen run to its exit code."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path

from mindrecipe.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, UserError
from mindrecipe.measure.history import forget_evaluation, keep_steps
from mindrecipe.orphans import LAUNCHER
from mindrecipe.worker import environment, guard, load
from mindrecipe.worker.environment import Place
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.rundir import RunDir
from mindrecipe.worker.stopping import EXIT_STOPPED


def work(path: Path) -> int:
    """Be the rank that the environment says; the exit code of the process."""
    guard.end_at_once_when_asked()
    place = Place.from_environment()
    try:
        run = RunDir.read(path)
        if LAUNCHER not in os.environ and not place.simulated:
            run.require_room()
    except UserError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    environment.prepare(run, place)
    if place.scheduler:
        return _schedule()
    if place.rank == 0:
        keep_steps(run.metrics, run.resumed_step)
        forget_evaluation(run.path)
    monitor = run.config["monitor"]
    journal = Journal(
        run.events(place.rank),
        run.metrics if place.rank == 0 else None,
        place.rank,
        rank_steps=run.rank_steps(place.rank) if monitor["rank_steps"] and place.world > 1 else None,
        usage=None if monitor["usage_interval"] is None else run.usage(place.rank),
    )
    try:
        return _train_and_evaluate(run, place, journal)
    except Exception as error:
        journal.failed(error)
        traceback.print_exc()
        return EXIT_FAILED


def _train_and_evaluate(run: RunDir, place: Place, journal: Journal) -> int:
    began = time.monotonic()
    journal.phase("start", world=place.world)
    _sample_usage(run, place, journal)
    journal.phase("import")
    if load.device_target(run) == "CPU":
        from mindrecipe.worker import portable

        portable.before_mindformers()
    load.user_modules(list(run.config["run"]["imports"]))
    native = load.load(run, place, trains=not run.trained_out)
    journal.phase("build")
    from mindrecipe.worker import training

    training.start_runtime(run, native)
    guard.end_at_once_when_asked()  # the runtime has put its own handlers in place
    if place.simulated:
        from mindrecipe.worker.simulated import simulate

        simulate(run, native, place, journal)
        return EXIT_OK
    if run.trained_out:
        if run.config["evaluate"]["at_end"]:
            from mindrecipe.worker import remaining

            remaining.evaluate(run, native, place, journal)
        journal.phase("done", step=run.resumed_step, seconds=time.monotonic() - began)
        return _leave(run, place, EXIT_OK)
    trained = training.train(run, native, place, journal)
    if trained.stopped:
        journal.phase("stopped", step=trained.step)
    else:
        if run.config["evaluate"]["at_end"]:
            from mindrecipe.worker import heldout

            heldout.evaluate(run, native, lambda: trained.network, place, journal)
        journal.phase("done", step=trained.step, seconds=time.monotonic() - began)
    return _leave(run, place, EXIT_STOPPED if trained.stopped else EXIT_OK)


def _leave(run: RunDir, place: Place, code: int) -> int:
    """``code``, once the others are ready to leave as well."""
    if place.world > 1 and load.device_target(run) == "CPU":
        from mindrecipe.worker.portable import barrier

        barrier.part()
    return code


def _sample_usage(run: RunDir, place: Place, journal: Journal) -> None:
    interval = run.config["monitor"]["usage_interval"]
    if interval is None:
        return
    from mindrecipe.worker.usage import Sampler

    npu = place.rank % int(run.derived["devices_per_node"]) if load.device_target(run) != "CPU" else None
    Sampler(journal.usage, float(interval), npu).start()


def _schedule() -> int:
    """msrun starts the same program once more as the scheduler, which brings the ranks together and waits for their end.

    mindspore does both inside ``init``; mindformers is not needed. A scheduler's SIGTERM is for the ranks: they still need this process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from mindspore.communication import init

    init()
    return EXIT_OK
