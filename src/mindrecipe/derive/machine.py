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

#: MB of HBM: of the first generation and of a 910B4, and of the later ones
_FIRST, _LATER = 32768, 65536


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
    """The kind of NPU in what `npu-smi info` prints: a line with its name, and one that ends with its memory (HBM-Usage, in MB).

    ::

        | 0     910B3               | OK            | 93.7        35                0    / 0             |
        | 0                         | 0000:C1:00.0  | 0           0    / 0          3316 / 65536         |

    An Atlas A3 calls each die of a 910C Ascend910, and the first generation had a 910B of 32 GB, as it had 910A, 910ProA, 910ProB
    and 910PremiumA: where the name leaves it open, the memory tells.
    """
    named = re.search(r"^\|\s*\d+\s+(?:Ascend[ _]?)?(910\w*)", listing, re.MULTILINE)
    if named is None:
        return "unknown"
    name, memory = named[1], max(map(int, re.findall(r"/\s*(\d+)\s*\|\s*$", listing, re.MULTILINE)), default=0)
    if re.fullmatch(r"910(A|Pro[AB]|PremiumA)", name) or (name == "910B" and memory == _FIRST):
        return "ascend_910a"
    if re.fullmatch(r"910B\d\w*", name) or (name == "910B" and memory == _LATER):
        return "ascend_910b4" if name == "910B4" and memory == _FIRST else "ascend_910b"
    if re.fullmatch(r"910(C\w*|_93\w+)", name) or (name == "910" and memory == _LATER):
        return "ascend_910c"
    return "unknown"
