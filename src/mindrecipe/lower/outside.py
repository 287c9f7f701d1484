"""What is no part of mindformers' configuration: environment variables of the ranks, and options of msrun.

HCCL's variables and their ranges are those of CANN's manual (environment variables, collective communication). By the two others
mindformers judges whether all ranks see the same disk (utils/file_utils.py, is_publicly_accessible_path): it counts eight devices to a
host, and knows NFS, DPC and sshfs for shared. Where it finds no shared disk, the first save in its section ``checkpoint`` raises.
"""

from __future__ import annotations

from pathlib import Path

from mindrecipe.derive import Derived
from mindrecipe.lower.checkpoint import in_section

_CONNECT = "HCCL_CONNECT_TIMEOUT"
_CONNECT_RANGE = (120, 7200)
PER_HOST = "DEVICE_NUM_PER_NODE"
SHARED = "SHARED_PATHS"
_DETERMINISTIC = {"off": "false", "on": "true", "strict": "strict"}


def environment(derived: Derived, run_dir: Path | None = None) -> dict[str, str]:
    """Variables that knobs stand for, and those by which mindformers finds ``run_dir`` shared. What is null stays as the shell says, but
    for the wait at the start: devices that wait for each other for a shorter time than their processes do would give up first.
    """
    launch = derived.config.launch
    if derived.hardware.target == "CPU":
        return {}
    connect = launch.hccl_connect_timeout
    if connect is None and derived.device_num > 1 and _CONNECT not in derived.machine.environment:
        lowest, highest = _CONNECT_RANGE
        connect = min(max(launch.cluster_time_out, lowest), highest)
    given = {
        _CONNECT: connect,
        "HCCL_EXEC_TIMEOUT": launch.hccl_exec_timeout,
        "HCCL_BUFFSIZE": launch.hccl_buffsize,
        "HCCL_DETERMINISTIC": _DETERMINISTIC.get(launch.hccl_deterministic or ""),
        PER_HOST: launch.devices_per_node,
        SHARED: _shared(derived, run_dir),
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def _shared(derived: Derived, run_dir: Path | None) -> str | None:
    """The run directory, beside what the shell names: hosts that save together share it (join.py sees to that)."""
    if run_dir is None or derived.config.launch.nodes == 1 or not in_section(derived):
        return None
    return ",".join(filter(None, (derived.machine.environment.get(SHARED), str(run_dir))))


def msrun_options(derived: Derived) -> list[str]:
    """Options of msrun beside those that every launch needs (launch/commands.py); launch.msrun_args last."""
    launch = derived.config.launch
    options = ["--bind_core=True"] if launch.bind_core else []
    if launch.rank_table is not None:
        options.append(f"--rank_table_file={launch.rank_table}")
    return [*options, *launch.msrun_args]
