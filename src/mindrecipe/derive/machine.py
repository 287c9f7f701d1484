"""What this machine is, as far as a recipe depends on it: NPUs, memory, cores. Read once, passed on as a value."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from mindrecipe.derive.surroundings import Here, Unknown

#: variables that act on MindSpore or mindformers and do not begin with MS_
OUTSIDE = (
    "RANK_ID", "RANK_SIZE", "RUN_MODE", "DEVICE_NUM_PER_NODE", "SHARED_PATHS", "RANK_TABLE_FILE", "ASCEND_LAUNCH_BLOCKING",
    "HCCL_CONNECT_TIMEOUT",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """``npu``: catalogue name of its NPUs, None where there are none, "unknown" where their kind can't be told.

    ``cores`` are those that this process may use, ``cpu_count`` all that the machine has, None where that is not looked at.
    ``environment``: the variables that are set of those that act on MindSpore; ``packages``: installed versions, as far as looked for;
    ``surroundings`` answers what rules ask of it.
    """

    npu: str | None
    npu_count: int
    memory_bytes: int
    cores: int
    cpu_count: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    surroundings: Unknown = field(default_factory=Unknown, compare=False, repr=False)


def this_machine() -> Machine:
    """Look at this machine: device files, `npu-smi` where there is one, memory and cores."""
    count = len([path for path in Path("/dev").glob("davinci*") if re.fullmatch(r"davinci\d+", path.name)])
    return Machine(
        npu=_npu_kind() if count else None,
        npu_count=count,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cores=len(os.sched_getaffinity(0)),
        cpu_count=os.cpu_count(),
        environment={name: os.environ[name] for name in sorted(os.environ) if name in OUTSIDE or name.startswith("MS_")},
        packages={name: version for name in ("mindspore", "mindformers") if (version := _version(name)) is not None},
        surroundings=Here(),
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _npu_kind() -> str:
    tool = shutil.which("npu-smi")
    if tool is None:
        return "unknown"
    try:
        listing = subprocess.run([tool, "info"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return kind_in(listing)


def kind_in(listing: str) -> str:
    """The kind of NPU in what `npu-smi info` prints: its column Name holds 910B3, Ascend910B1, 910A, 910ProB and so on."""
    if re.search(r"(\b|Ascend)910B", listing):
        return "ascend_910b"
    if re.search(r"(\b|Ascend)910(A|Pro[AB]?)?\b", listing):
        return "ascend_910a"
    return "unknown"
