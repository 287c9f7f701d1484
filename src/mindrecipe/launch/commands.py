"""The exact command lines of a launch. Argument lists from end to end: no shell reads them, so nothing in them needs quoting."""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
from pathlib import Path

from mindrecipe.launch.plan import LaunchPlan

_NAMES = ("python", "python3")  # the interpreters that msrun takes as a command of their own; it looks them up on PATH


def command_lines(plan: LaunchPlan) -> list[list[str]]:
    """One command line for each host; :func:`mindrecipe.launch.environment.rank_environment` is what they need around them."""
    if plan.is_local:
        return [[sys.executable, *plan.worker, str(plan.run_dir)]]
    return [_msrun_line(plan, node) for node in range(plan.nodes)]


def find_msrun() -> str | None:
    """The msrun that was installed with this Python's mindspore, else the first one on PATH."""
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), os.path.join(site.getuserbase(), "bin")]
    return shutil.which("msrun", path=os.pathsep.join(folders)) or shutil.which("msrun")


def python_name() -> str | None:
    """The name under which this interpreter stands in its own folder, of the two that msrun accepts; None if under neither."""
    here = Path(sys.executable)
    own_first = sorted(_NAMES, key=lambda name: name != here.name)
    return next((name for name in own_first if (here.parent / name).exists() and (here.parent / name).resolve() == here.resolve()), None)


def _msrun_line(plan: LaunchPlan, node: int) -> list[str]:
    """msrun with every option that matters spelled out.

    ``--join`` because it otherwise returns at once with 0; ``--node_rank`` because ranks otherwise learn theirs only after
    their data was built; ``--worker_log_name`` puts a rank's output where we want it; a ``--tail_worker_log`` that names no
    rank keeps it from running a `tail` of each log, which doubles every line and outlives it.
    """
    return [
        *(plan.msrun or (find_msrun() or "msrun",)),
        "--join=True",
        f"--worker_num={plan.ranks}",
        f"--local_worker_num={plan.devices_per_node}",
        f"--master_addr={plan.master_addr}",
        f"--master_port={plan.port}",
        f"--node_rank={node}",
        f"--log_dir={plan.files.logs}",
        f"--cluster_time_out={plan.cluster_time_out}",
        "--worker_log_name=rank",
        f"--tail_worker_log={plan.ranks}",
        *plan.msrun_args,
        python_name() or "python",
        *plan.worker,
        str(plan.run_dir),
    ]
