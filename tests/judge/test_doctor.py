"""The doctor: every line of this machine, faults that are made to be, and a real all-reduce."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from mindrecipe.derive.machine import Machine
from mindrecipe.errors import UserError
from mindrecipe.judge.doctor import checks, collectives


def lines(check: checks.Check, folder: Path) -> dict[str, checks.Line]:
    return {line.what: line for line in check(folder)}


def test_this_machine(here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("doctor", "--json")
    told = {line["what"]: line for line in json.loads(done.out)}
    assert done.code == 0 and set(told) == {"mindspore", "mindformers", "python", "devices", "memory", "disk", "cores", "ports", "clock"}
    assert told["mindspore"] == {"what": "mindspore", "level": "ok", "told": "2.9.0", "mend": None}
    assert told["disk"]["told"].endswith("/s") and list(here.iterdir()) == []
    assert all(line["level"] in checks.LEVELS and (line["mend"] is None) == (line["level"] == "ok") for line in told.values())
    assert mindrecipe("doctor").out.startswith("ok      mindspore   2.9.0")


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"mindspore": "2.4.0"}[name])
    with pytest.raises(KeyError):
        lines(checks.versions, tmp_path)

    def version(name: str) -> str:
        if name == "mindformers":
            raise importlib.metadata.PackageNotFoundError
        return "2.4.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = lines(checks.versions, tmp_path)
    assert (found["mindspore"].level, found["mindspore"].mend) == ("warning", "pip install mindspore==2.9.0")
    assert (found["mindformers"].level, found["mindformers"].mend) == ("fault", "pip install mindformers==1.9.0")


def test_npus_without_their_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "npu-smi"
    tool.write_text('#!/bin/sh\n[ "$4" = health ] || [ "$3" = health ] && echo "        Health                         : Alarm"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(checks, "this_machine", lambda: Machine(npu="ascend_910b", npu_count=8, memory_bytes=2**40, cores=64))
    found = lines(checks.devices, tmp_path)
    assert found["devices"].told == "8 x ascend_910b" and found["cann"].level == found["driver"].level == "fault"
    assert (found["health"].level, found["health"].told) == ("fault", "Alarm")


def test_memory_disk_ports_and_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: whole._replace(available=2**30))
    assert lines(checks.memory, tmp_path)["memory"].level == "warning"
    monkeypatch.setattr(checks, "is_bound", lambda port: True)
    assert "in use" in lines(checks.ports, tmp_path)["ports"].told
    monkeypatch.setattr(checks, "find_msrun", lambda: None)
    assert lines(checks.ports, tmp_path)["msrun"].level == "fault"
    monkeypatch.setattr(checks, "_SLOW_DISK", 1e15)
    assert lines(checks.disk, tmp_path / "not" / "yet")["disk"].level == "warning"
    monkeypatch.setattr(checks, "DISK_RESERVE", 2**60)
    assert lines(checks.disk, tmp_path)["disk"].level == "fault"
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 60)
    assert lines(checks.clock, tmp_path)["clock"].level == "warning"


def test_a_disk_that_only_looks_as_if_it_could_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root everything is said to be writable: a disk that is mounted for reading, /proc."""

    def refuse(**ignored: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    found = lines(checks.disk, tmp_path)["disk"]
    assert found.level == "fault" and "Read-only file system" in found.told and lines(checks.clock, tmp_path) == {}


def test_a_busy_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    assert lines(checks.cores, tmp_path)["cores"].level == "warning"
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    assert lines(checks.cores, tmp_path)["cores"].level == "ok"


@pytest.mark.e2e
def test_all_reduce_over_two_ranks() -> None:
    found = collectives.sweep(2, "CPU")
    assert [each.size for each in found] == [4**power for power in range(5, 13)]
    assert all(each.bus == pytest.approx(each.size / each.seconds) for each in found), "of two ranks the factor is one"
    assert found[-1].bus > found[0].bus


@pytest.mark.e2e
def test_ranks_that_do_not_come_together() -> None:
    with pytest.raises(UserError, match="did not come together in 1 s"):
        collectives.sweep(2, "CPU", timeout=1.0)
