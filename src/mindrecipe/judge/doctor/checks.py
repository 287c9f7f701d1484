"""What can be known of a machine without training: versions, devices, memory, disk, cores, ports, clock. One function a line."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from mindrecipe.derive.machine import Machine, this_machine
from mindrecipe.derive.surroundings import existing_parent, is_bound
from mindrecipe.judge.doctor import ascend
from mindrecipe.judge.doctor.line import Line
from mindrecipe.launch.commands import find_msrun
from mindrecipe.launch.plan import DEFAULT_PORT
from mindrecipe.launch.preconditions import DISK_RESERVE
from mindrecipe.measure.view import text

#: the pair that mindformers/VERSION_MAP.json names for 1.9.0, and the Pythons both have wheels for
KNOWN_GOOD = {"mindspore": ("2.9.0",), "mindformers": ("1.9.0",), "python": ("3.10", "3.11", "3.12")}
_PROBE = 64 * 2**20
_SLOW_DISK = 50 * 2**20
_CLOCK_SKEW = 2.0


Check = Callable[[Path], Iterator[Line]]


def examine(folder: Path) -> list[Line]:
    """All lines; ``folder`` is where runs are to be written."""
    return [line for check in CHECKS for line in check(folder)]


def versions(_: Path) -> Iterator[Line]:
    """MindSpore, mindformers and Python against the known-good table; the Ascend toolkit and driver where there are NPUs."""
    for name in ("mindspore", "mindformers"):
        good = KNOWN_GOOD[name]
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Line(what=name, level="fault", told="is not installed", mend=f"pip install {name}=={good[-1]}")
            continue
        fine = found in good
        yield Line(
            what=name,
            level="ok" if fine else "warning",
            told=found if fine else f"{found} is not the version this mindrecipe was tested with",
            mend=None if fine else f"pip install {name}=={good[-1]}",
        )
    python = platform.python_version()
    fine = python.rpartition(".")[0] in KNOWN_GOOD["python"]
    yield Line(
        what="python", level="ok" if fine else "fault", told=python, mend=None if fine else f"Python {', '.join(KNOWN_GOOD['python'])}"
    )


def devices(_: Path) -> Iterator[Line]:
    """NPUs, and their toolkit, driver and health."""
    machine = this_machine()
    if not machine.npu_count:
        yield Line(what="devices", level="ok", told="no NPU: trainings here run on the CPU, stand-alone or data parallel")
        return
    yield from _npus(machine)


def _npus(machine: Machine) -> Iterator[Line]:
    kind = machine.npu or "unknown"
    mend = "npu-smi (it comes with the driver) on PATH, or device=ascend_910b" if kind == "unknown" else None
    yield Line(what="devices", level="warning" if mend else "ok", told=f"{machine.npu_count} x {kind}", mend=mend)
    yield from ascend.toolkit()
    yield from ascend.health(machine.npu_count)


def memory(_: Path) -> Iterator[Line]:
    """Of the host."""
    found = psutil.virtual_memory()
    short = found.available < 4 * 2**30
    yield Line(
        what="memory",
        level="warning" if short else "ok",
        told=f"{text.size(found.available)} of {text.size(found.total)} are free",
        mend="end what uses it: importing MindSpore and a tiny model take 2 GiB a rank" if short else None,
    )


def disk(folder: Path) -> Iterator[Line]:
    """Room and speed of the disk that runs are written to: 64 MiB written, and forced to the disk."""
    place = existing_parent(folder)
    if not os.access(place, os.W_OK | os.X_OK):
        yield Line(what="disk", level="fault", told=f"{place} can't be written to", mend="run.root=<a folder of yours>")
        return
    free = shutil.disk_usage(place).free
    if free < DISK_RESERVE + _PROBE:
        yield Line(what="disk", level="fault", told=f"{text.size(free)} are free in {place}", mend="run.root=<a folder on a larger disk>")
        return
    try:
        speed = _write_speed(place)
    except OSError as fault:  # a quota, a disk that is mounted for reading, a folder that only looks like one
        yield Line(what="disk", level="fault", told=f"{place} can't be written to: {fault.strerror}", mend="run.root=<a folder of yours>")
        return
    slow = speed < _SLOW_DISK
    yield Line(
        what="disk",
        level="warning" if slow else "ok",
        told=f"{text.size(free)} free in {place}, writes {text.size(int(speed))}/s",
        mend="run.root=<a local disk>, or checkpoint.async_save=true" if slow else None,
    )


def _write_speed(place: Path) -> float:
    """Bytes/s. OSError where it can't be written."""
    with tempfile.NamedTemporaryFile(dir=place, prefix=".mindrecipe-doctor-") as file:
        chunk, began = os.urandom(2**20), time.perf_counter()
        for _number in range(_PROBE // len(chunk)):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return _PROBE / (time.perf_counter() - began)


def cores(_: Path) -> Iterator[Line]:
    """Those this process may use, and how busy they are."""
    allowed, whole = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    load = os.getloadavg()[0]
    busy = load > 0.5 * allowed
    yield Line(
        what="cores",
        level="warning" if busy else "ok",
        told=f"{allowed} of {whole}, load {load:.1f}",
        mend="a quiet machine for measurements; `mindrecipe bench` compares two recipes on a busy one" if busy else None,
    )


def ports(_: Path) -> Iterator[Line]:
    """msrun, and the port that its scheduler takes on several hosts."""
    if find_msrun() is None:
        yield Line(what="msrun", level="fault", told="is missing", mend=f"pip install mindspore=={KNOWN_GOOD['mindspore'][-1]}")
        return
    taken = is_bound(DEFAULT_PORT)
    yield Line(
        what="ports",
        level="warning" if taken else "ok",
        told=f"{DEFAULT_PORT} is {'in use' if taken else 'free'}",
        mend="launch.master_port=<a free one> on several hosts" if taken else None,
    )


def clock(folder: Path) -> Iterator[Line]:
    """This host's clock against that of the disk, which is another host's where it is a shared one; nothing of a disk that can't be
    written, which has its own line."""
    try:
        with tempfile.NamedTemporaryFile(dir=existing_parent(folder), prefix=".mindrecipe-doctor-") as file:
            file.write(b"now")
            file.flush()
            skew = abs(os.fstat(file.fileno()).st_mtime - time.time())
    except OSError:
        return
    late = skew > _CLOCK_SKEW
    yield Line(
        what="clock",
        level="warning" if late else "ok",
        told=f"{skew:.2f} s from the disk's",
        mend="synchronise the hosts' clocks (chrony or ntpd): events of several hosts are ordered by them" if late else None,
    )


CHECKS: tuple[Check, ...] = (versions, devices, memory, disk, cores, ports, clock)
