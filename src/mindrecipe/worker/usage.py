"""What this rank and its host use, sampled by a thread beside the training: a step is never held up by it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from mindrecipe.measure.record import Usage
from mindrecipe.orphans import LAUNCHER

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # idle and iowait, of a core's fields: user, nice, system, idle, iowait, irq, softirq, steal
_FIELDS = 8  # the guests' that follow are counted in user and nice already


class Sampler:
    """Gives a :class:`Usage` to ``write`` every ``interval`` seconds until the process ends.

    ``npu``: id of the NPU to ask npu-smi about, None where there is none.
    """

    def __init__(self, write: Callable[[Usage], None], interval: float, npu: int | None) -> None:
        self._write = write
        self._interval = interval
        self._npu = npu if shutil.which("npu-smi") else None
        self._process = psutil.Process()
        self._cores = cores_of_the_run()
        self._last = self._counters()

    def start(self) -> None:
        """Sample from now on."""
        threading.Thread(target=self._run, name="usage", daemon=True).start()

    def sample(self) -> Usage:
        """The use since the sample before."""
        now = self._counters()
        took, rates = now[0] - self._last[0], []
        for name in range(1, len(now)):
            before, after = self._last[name], now[name]
            rates.append(None if before is None or after is None else (after - before) / took)
        self._last = now
        cpu, host_cpu, sent, received, read, written = rates
        return Usage(
            time=time.time(),
            cpu=cpu or 0.0,
            host_cpu=host_cpu or 0.0,
            rss=self._process.memory_info().rss,
            host_memory=psutil.virtual_memory().used,
            disk_read=read,
            disk_write=written,
            net_sent=sent or 0.0,
            net_received=received or 0.0,
            npu=None if self._npu is None else npu_use(self._npu),
            host_cores=len(self._cores),
        )

    def _run(self) -> None:
        while True:
            time.sleep(self._interval)
            self._write(self.sample())

    def _counters(self) -> tuple[float, float, float, float, float, float | None, float | None]:
        own, net = self._process.cpu_times(), psutil.net_io_counters()
        read: float | None = None
        written: float | None = None
        with contextlib.suppress(psutil.AccessDenied):  # some containers keep /proc/<pid>/io from us
            disk = self._process.io_counters()
            read, written = disk.read_bytes, disk.write_bytes
        return time.monotonic(), own.user + own.system, busy_seconds(self._cores), net.bytes_sent, net.bytes_recv, read, written


def cores_of_the_run() -> frozenset[int]:
    """The cores of this host that the run may use: its launcher's, since msrun may have bound this rank to some of them
    (launch.bind_core); this process's own without a launcher. A batch system, a container or taskset gives fewer than the host has."""
    return frozenset(os.sched_getaffinity(int(os.environ.get(LAUNCHER) or 0)))


def busy_seconds(cores: Collection[int], stat: Path = _STAT) -> float:
    """CPU time that all processes of this host together have used of ``cores`` since it started.

    Read by the cores' own numbers, which psutil's list leaves out: of cores that are switched off there is no line. Where one of ``cores``
    has none, a container numbers its cores anew (lxcfs), and all that are listed are its own.
    """
    listed: dict[int, float] = {}
    with stat.open(encoding="ascii") as lines:
        for line in lines:
            name, *ticks = line.split(maxsplit=_FIELDS + 1)
            if not name.startswith("cpu"):
                break
            if name != "cpu":
                fields = [int(each) for each in ticks[:_FIELDS]]
                listed[int(name.removeprefix("cpu"))] = sum(fields) - sum(fields[place] for place in _IDLE)
    counted = cores if listed.keys() >= set(cores) else listed
    return sum(listed[core] for core in counted) / os.sysconf("SC_CLK_TCK")


def npu_use(npu: int) -> float | None:
    """Share (0 to 1) of the NPU's cores that are busy, from `npu-smi info -t usages`; None where it does not answer."""
    try:
        done = subprocess.run(["npu-smi", "info", "-t", "usages", "-i", str(npu)], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return use_in(done.stdout)


def use_in(listing: str) -> float | None:
    """The line "Aicore Usage Rate(%) : 87" of npu-smi's listing."""
    found = re.search(r"^\s*Aicore Usage Rate\(%\)\s*:\s*(\d+)", listing, re.MULTILINE)
    return int(found.group(1)) / 100 if found else None
