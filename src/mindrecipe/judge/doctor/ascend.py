"""What a host with NPUs has besides: toolkit and driver against the versions that belong together, and the health of each device.

The table is mindformers' own (VERSION_MAP.json: "ms" maps MindSpore to CANN, "cann" maps CANN to the driver), read from the package that is
installed, and beside it the CANN releases that MindSpore takes without a warning (mindspore/run_check/_check_version.py, AscendEnvChecker).
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

from mindrecipe.judge.doctor.line import Line
from mindrecipe.lock import toolkit_versions

_MAP = "mindformers/VERSION_MAP.json"
#: as MindSpore 2.9.0 lists them: major and minor number
ACCEPTED = {"2.9.0": ("8.2", "8.3", "8.5", "9.0")}
_SECONDS = 20.0


def toolkit() -> Iterator[Line]:
    """CANN and driver: found, and of the versions that belong to the MindSpore that is installed."""
    found, mindspore = toolkit_versions(), _version("mindspore")
    cann, driver = found["cann"], found["driver"]
    wanted = known_good("ms", mindspore)
    accepted = ACCEPTED.get(mindspore or "", ())
    yield _line("cann", cann, wanted, f"MindSpore {mindspore}", also=accepted)
    release = _release(cann) if cann else wanted[0] if wanted else None
    yield _line("driver", driver, known_good("cann", release), f"CANN {release}")


def known_good(of: str, version: str | None) -> tuple[str, ...]:
    """The versions that mindformers' table names for ``version`` of MindSpore ("ms") or CANN ("cann"), the preferred one first; empty where
    it names none, or there is no mindformers."""
    try:
        files = importlib.metadata.files("mindformers") or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    for file in files:
        if str(file) == _MAP:
            table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            row = table.get(of, {}).get(version) or {}
            return tuple(dict.fromkeys([*([row["prefer"]] if "prefer" in row else []), *row.get("support", ())]))
    return ()


def health(count: int) -> Iterator[Line]:
    """Of each card that npu-smi lists (it may have several chips), else of ``count`` devices; in one line where all are well."""
    told: dict[str, tuple[list[str], str]] = {}
    listed, why = _ask("-l")
    cards = re.findall(r"^\s*NPU ID\s*:\s*(\d+)", listed, re.MULTILINE) or [str(device) for device in range(count)]
    for card in cards:
        said, why = ("", why) if why else _ask("-t", "health", "-i", card)  # what hangs, or is not there, is so for the others as well
        told[card] = re.findall(r"^\s*Health[^:\n]*:\s*(\S.*?)\s*$", said, re.MULTILINE), why or "as npu-smi says nothing of it"
    for card, (states, _) in told.items():
        if ill := [state for state in states if state != "OK"]:
            yield Line(what="health", level="fault", told=f"device {card}: {', '.join(ill)}", mend="npu-smi info; the device's own log")
    unknown = [card for card, (states, _) in told.items() if not states]
    if unknown:
        which = "every device" if len(unknown) == len(cards) else f"device {', '.join(unknown)}"
        mend = "npu-smi (it comes with the driver) on PATH, and a driver that answers it"
        yield Line(what="health", level="warning", told=f"{which}: unknown, {told[unknown[0]][1]}", mend=mend)
    if all(set(states) == {"OK"} for states, _ in told.values()):
        yield Line(what="health", level="ok", told=f"OK ({len(cards)} devices)" if len(cards) > 1 else "OK")


def _ask(*words: str) -> tuple[str, str]:
    """What `npu-smi info` prints; and why it has not answered, empty where it has."""
    try:
        done = subprocess.run(["npu-smi", "info", *words], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "", f"as npu-smi has not answered in {_SECONDS:.0f} s"
    except OSError as fault:
        return "", f"as npu-smi can't be started: {fault.strerror}"
    return done.stdout, ""


def _line(what: str, found: str | None, wanted: tuple[str, ...], base: str, also: tuple[str, ...] = ()) -> Line:
    if found is None:
        version = f" {wanted[0]}" if wanted else ""
        return Line(what=what, level="fault", told="not found", mend=f"install {what}{version} for {base}, and source its set_env.sh")
    if not wanted and not also:
        return Line(what=what, level="ok", told=f"{found}; which versions go with {base} is not known")
    if any(_same(found, good) for good in wanted):
        return Line(what=what, level="ok", told=found)
    if _minor(found) in also:
        return Line(
            what=what, level="ok", told=f"{found}, which {base} accepts; mindformers was released with {', '.join(wanted) or 'none'}"
        )
    return Line(what=what, level="warning", told=f"{found} is not what goes with {base}", mend=f"{what} {' or '.join(wanted or also)}")


def _same(found: str, good: str) -> bool:
    """Whether two spellings name one version: "9.0.0" is written "9.0.0" or "9.0.0.1.220" by version files, case varies."""
    ours, theirs = (re.split(r"[._-]", text.casefold()) for text in (found, good))
    return ours[: len(theirs)] == theirs


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _release(cann: str) -> str:
    """The name of a CANN version in mindformers' table: its first three parts."""
    return ".".join(re.split(r"[._-]", cann)[:3])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
