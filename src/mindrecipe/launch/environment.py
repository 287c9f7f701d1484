"""The environment of a rank: what it inherits, what must not leak into it, and what the launcher adds."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import mindrecipe
from mindrecipe.launch.commands import python_name
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.processes import RUN_ID
from mindrecipe.orphans import LAUNCHER

# A rank takes its place in the job, its device or its nature from these; one left over from an outer job would give it a wrong one.
FOREIGN = (
    "MS_ROLE",
    "MS_NODE_ID",
    "MS_WORKER_NUM",
    "MS_SERVER_NUM",
    "MS_SCHED_HOST",
    "MS_SCHED_PORT",
    "MS_TOPO_TIMEOUT",
    "RANK_ID",
    "RANK_SIZE",
    "RANK_TABLE_FILE",
    "SERVER_ID",
    "DEVICE_ID",
    "MS_SIMULATION_LEVEL",
    "MS_COMPILER_CACHE_ENABLE",
    "MS_COMPILER_CACHE_PATH",
    "MS_ENABLE_RECOVERY",
    "MS_RECOVERY_PATH",
)


def additions(plan: LaunchPlan, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the plan sets for every rank, besides what the launcher needs for itself."""
    added: dict[str, str] = {}
    threads = plan.threads_per_worker
    if threads is None and plan.device_target == "CPU" and "OMP_NUM_THREADS" not in inherited:
        threads = threads_of_each(plan.devices_per_node)
    if threads is not None:
        added["OMP_NUM_THREADS"] = str(threads)
    added.update(plan.variables)
    added.update({key: str(value) for key, value in plan.env.items() if value is not None})
    return added


def threads_of_each(ranks: int) -> int:
    """What each of ``ranks`` on this host computes with on CPU where nobody has said it: this process's cores, shared."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def always(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What every rank needs, whatever is asked for."""
    return {
        "PYTHONSAFEPATH": "1",  # the current folder is no place for libraries: worker/environment.py puts it last
        "PYTHONUNBUFFERED": "1",  # a rank that is killed must not take its last words with it
        "PYTHONPATH": _join(inherited.get("PYTHONPATH"), str(Path(mindrecipe.__file__).resolve().parents[1])),
    }


def left_out(plan: LaunchPlan, inherited: Mapping[str, str] = os.environ) -> list[str]:
    """Variables of this shell that ranks do not get, because they belong to another job."""
    return [name for name in FOREIGN if name in inherited and name not in plan.env]


def rank_environment(plan: LaunchPlan, run_id: str, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of the processes of this launch, all marked with ``run_id``."""
    dropped = {*FOREIGN, *(key for key, value in plan.env.items() if value is None)}
    environment = {key: value for key, value in inherited.items() if key not in dropped}
    environment.update(always(inherited))
    environment.update(additions(plan, inherited))
    if not plan.is_local:  # msrun looks its python up on PATH: this one, whether or not its environment is activated
        environment["PATH"] = _join(str(python_folder(plan)), environment.get("PATH"))
    environment[RUN_ID] = run_id
    environment[LAUNCHER] = str(os.getpid())
    return environment


def python_folder(plan: LaunchPlan) -> Path:
    """The folder in which msrun shall find this interpreter."""
    return plan.run_dir / "bin" if python_name() is None else Path(sys.executable).parent


def write_python_shim(plan: LaunchPlan) -> None:
    """Where this interpreter has neither of the names that msrun accepts, give it one inside the run directory.

    A script, not a link: through a link from elsewhere a virtual environment's Python does not know its environment.
    """
    if python_name() is not None:
        return
    shim = python_folder(plan) / "python"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    shim.chmod(0o755)


def _join(*paths: str | None) -> str:
    return os.pathsep.join(path for path in paths if path)
