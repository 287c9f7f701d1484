"""One rank of a simulation as a process: the same worker as a real rank, in an environment that makes MindSpore run dry."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

import mindrecipe
from mindrecipe.launch.environment import FOREIGN
from mindrecipe.launch.processes import RUN_ID, die_with
from mindrecipe.measure.tail import LineTail
from mindrecipe.orphans import LAUNCHER
from mindrecipe.simulate.job import Job
from mindrecipe.simulate.standin import StandIn

#: the lowest level at which MindSpore reports the peak of memory; the next one needs a device
LEVEL = "1"


class SimulatedRank:
    """A running rank. Its output goes to RUN/logs/rank_N.log, as that of a real rank does."""

    def __init__(self, job: Job, rank: int, stand_in: StandIn, run_id: str) -> None:
        self.rank = rank
        self.log = job.run_dir / "logs" / f"rank_{rank}.log"
        self.events = LineTail(job.run_dir / "logs" / f"rank_{rank}.events.jsonl", from_end=True)
        self.phase = "start"
        self.host_bytes = 0
        self._began = time.monotonic()
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *job.worker, str(job.run_dir)],
                env=environment(job, rank, stand_in, run_id),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - one system call, which takes no lock that another thread could hold
            )

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._began

    def reap(self) -> None:
        """Collect its exit status, once it was killed."""
        self._process.wait()

    def measure(self) -> int:
        """Its resident memory now, in bytes; :attr:`host_bytes` keeps the largest."""
        try:
            now = int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            now = 0
        self.host_bytes = max(self.host_bytes, now)
        return now


def environment(job: Job, rank: int, stand_in: StandIn, run_id: str, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of a simulated rank."""
    dropped = {*FOREIGN, *(key for key, value in job.env.items() if value is None)}
    kept = {key: value for key, value in inherited.items() if key not in dropped}
    kept |= stand_in.environment(kept.get("LD_LIBRARY_PATH"))
    ours = str(Path(mindrecipe.__file__).resolve().parents[1])
    kept["PYTHONPATH"] = os.pathsep.join(path for path in (kept.get("PYTHONPATH"), ours, *stand_in.python) if path)
    kept |= {key: str(value) for key, value in job.env.items() if value is not None}
    return kept | {
        "PYTHONSAFEPATH": "1",  # as of a real rank: the current folder is no place for libraries
        "PYTHONUNBUFFERED": "1",
        "MS_SIMULATION_LEVEL": LEVEL,
        "RANK_ID": str(rank),
        "RANK_SIZE": str(job.device_num),
        "MINDRECIPE_SIMULATED_SOC": job.soc,
        "GLOG_v": "2",  # the peak of memory is told as a warning
        RUN_ID: run_id,
        LAUNCHER: str(os.getpid()),
    }
