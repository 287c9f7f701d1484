"""Everything that must be set before mindspore and mindformers are imported.

mindformers opens its log files while it is imported, at a place taken from the environment; mindspore drops ``rank_0/om``,
``kernel_meta`` and the like into the current folder; OpenMP reads its thread count once.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.worker.rundir import RunDir

SCHEDULER_ROLE = "MS_SCHED"
SIMULATION = "MS_SIMULATION_LEVEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where this process stands in the job: ``rank`` of ``world`` processes, or msrun's scheduler, which trains nothing."""

    rank: int
    world: int
    scheduler: bool
    simulated: bool = False

    @classmethod
    def from_environment(cls) -> Place:
        """msrun exports RANK_ID (or MS_NODE_ID) and MS_WORKER_NUM to its workers; without them: the one process of the run."""
        rank = os.environ.get("RANK_ID") or os.environ.get("MS_NODE_ID") or "0"
        world = os.environ.get("MS_WORKER_NUM") or os.environ.get("RANK_SIZE") or "1"
        return cls(
            rank=int(rank), world=int(world), scheduler=os.environ.get("MS_ROLE") == SCHEDULER_ROLE, simulated=SIMULATION in os.environ
        )


def prepare(run: RunDir, place: Place) -> None:
    """Point every dropping of the two frameworks into the run directory, and bound their threads.

    The current folder becomes ``scratch/rank_N`` of the run; the user's stays importable (``run.imports``). mindformers also looks
    for ``./configs`` and ``./output`` in the current folder, which thereby can not be the user's.
    """
    keep_importable(Path.cwd())
    scratch = run.scratch(place.rank)
    scratch.mkdir(parents=True, exist_ok=True)
    run.events(place.rank).parent.mkdir(parents=True, exist_ok=True)
    os.chdir(scratch)
    os.environ["PWD"] = str(scratch)
    os.environ["LOCAL_DEFAULT_PATH"] = str(run.path)
    os.environ["LOG_MF_PATH"] = str(run.path / "logs" / "mindformers")
    os.environ.setdefault("GLOG_v", "2")  # warnings and above
    threads = threads_per_worker(run)
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)


def threads_per_worker(run: RunDir) -> int | None:
    """CPU threads of this rank, for OpenMP and for MindSpore's operators: ``launch.threads_per_worker``.

    Where it is null, what the launcher (or the user) has put into OMP_NUM_THREADS; None leaves it to the libraries.
    """
    threads = run.config.get("launch", {}).get("threads_per_worker")
    if threads is None:
        threads = os.environ.get("OMP_NUM_THREADS", "")
        return int(threads) if threads.isdigit() and int(threads) > 0 else None
    return int(threads)


def keep_importable(folder: Path) -> None:
    """Keep modules of ``folder`` importable after the current folder changed, behind all others.

    Python puts the current folder first: a file of the user's that happens to be called like a library (./tokenizers.py) would then
    be imported in its place. A folder that stands in PYTHONPATH stays where it was put.
    """
    asked_for = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".", str(folder)) or (entry and entry in asked_for)]
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
