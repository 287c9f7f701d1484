"""The doctor: every line of this machine, faults that are made to be, and a real all-reduce."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from mindrecipe.derive.machine import Machine
from mindrecipe.errors import UserError
from mindrecipe.judge.doctor import ascend, checks, collectives
from mindrecipe.judge.doctor.line import LEVELS, Line
from mindrecipe.lock import toolkit_versions


def lines(check: checks.Check, folder: Path) -> dict[str, Line]:
    return {line.what: line for line in check(folder)}


def test_this_machine(here: Path, mindrecipe: Callable[..., Any]) -> None:
    done = mindrecipe("doctor", "--json")
    told = {line["what"]: line for line in json.loads(done.out)}
    assert done.code == 0 and set(told) == {"mindspore", "mindformers", "python", "devices", "memory", "disk", "cores", "ports", "clock"}
    assert told["mindspore"] == {"what": "mindspore", "level": "ok", "told": "2.9.0", "mend": None}
    assert told["disk"]["told"].endswith("/s") and list(here.iterdir()) == []
    assert all(line["level"] in LEVELS and (line["mend"] is None) == (line["level"] == "ok") for line in told.values())
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
    eight(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = lines(checks.devices, tmp_path)
    assert found["devices"].told == "8 x ascend_910b" and found["cann"].level == found["driver"].level == "fault"
    assert found["cann"].mend == "install cann 9.0.0 for MindSpore 2.9.0, and source its set_env.sh"
    assert found["health"].level == "warning" and found["health"].told.startswith("every device: unknown, as npu-smi can't be started")


def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "this_machine", lambda: Machine(npu="ascend_910b", npu_count=8, memory_bytes=2**40, cores=64))


@pytest.mark.parametrize(
    ("ill", "level", "told"), [("9", "ok", "OK (8 devices)"), ("3", "fault", "device 3: Alarm"), ("0", "fault", "device 0: Alarm")]
)
def test_every_device_is_asked(ill: str, level: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "npu-smi"
    tool.write_text(f'#!/bin/sh\nstate=OK; [ "$5" = {ill} ] && state=Alarm\necho "        Health                         : $state"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    eight(monkeypatch)
    found = lines(checks.devices, tmp_path)
    assert (found["health"].level, found["health"].told) == (level, told)


def test_cards_of_several_chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked by the numbers that npu-smi lists, which are fewer than the devices."""
    tool = tmp_path / "npu-smi"
    listed = r"printf '\tCard Count : 2\n\tNPU ID : 4\n\tChip Count : 2\n\tNPU ID : 6\n\tChip Count : 2\n'"
    states = r"case $5 in 4) printf '\tHealth Status : OK\n\tHealth Status : OK\n';; 6) printf '\tHealth : OK\n\tHealth : Warning\n';; esac"
    tool.write_text(f"#!/bin/sh\nif [ $2 = -l ]; then {listed}; else {states}; fi\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [(line.level, line.told) for line in ascend.health(4)] == [("fault", "device 6: Warning")]


def test_a_tool_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def hang(command: list[str], **ignored: Any) -> None:
        asked.append(command)
        raise subprocess.TimeoutExpired(command, 20)

    eight(monkeypatch)
    monkeypatch.setattr(subprocess, "run", hang)
    found = lines(checks.devices, tmp_path)
    assert len(asked) == 1 and found["health"].level == "warning" and "has not answered" in found["health"].told


@pytest.mark.parametrize(
    ("cann", "driver", "levels", "told"),
    [
        ("9.0.0", "26.0.rc1", ("ok", "ok"), "9.0.0"),
        ("9.0.0.1.220", "26.0.RC1", ("ok", "ok"), "9.0.0.1.220"),
        ("8.5.0", "25.5.0", ("ok", "ok"), "which MindSpore 2.9.0 accepts"),
        ("8.5.0", "24.1.0", ("ok", "warning"), "which MindSpore 2.9.0 accepts"),
        ("8.0.0", "24.1.0", ("warning", "ok"), "8.0.0 is not what goes with MindSpore 2.9.0"),
        ("8.3.7", "25.3.RC1", ("ok", "ok"), "which MindSpore 2.9.0 accepts"),
    ],
)
def test_toolkit_and_driver(cann: str, driver: str, levels: tuple[str, str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By mindformers' own table of what belongs together, and MindSpore's of what it accepts."""
    monkeypatch.setattr(ascend, "toolkit_versions", lambda: {"cann": cann, "driver": driver})
    found = {line.what: line for line in ascend.toolkit()}
    assert (found["cann"].level, found["driver"].level) == levels and told in found["cann"].told
    if cann == "8.3.7":
        assert found["driver"].told == "25.3.RC1; which versions go with CANN 8.3.7 is not known"


def test_the_table_is_that_of_the_packages() -> None:
    """MindSpore's list is in its source, which a command that is to be quick does not import."""
    source = importlib.metadata.distribution("mindspore").locate_file("mindspore/run_check/_check_version.py")
    accepted = ", ".join(f'"{version}"' for version in ascend.ACCEPTED["2.9.0"])
    assert f"self.version = [{accepted}]" in Path(str(source)).read_text(encoding="utf-8")
    assert ascend.known_good("ms", "2.9.0") == ("9.0.0",) and ascend.known_good("ms", "1.0") == ()


def test_cann_is_where_mindspore_looks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler/version.info").write_text("Version=9.0.0\nversion_dir=9.0\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert toolkit_versions()["cann"] == "9.0.0"


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
