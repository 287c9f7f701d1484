"""launch.dry_run: what a launch would start, to be read: nothing is made and nothing is started."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace

from mindrecipe.launch.commands import command_lines, python_name
from mindrecipe.launch.environment import FOREIGN, additions, always, python_folder
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.ports import free_port


def lines(plan: LaunchPlan, inherited: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Comments, and one command line a host with the variables that differ from the shell's."""
    yield "# dry run: all checks have passed, nothing was made or started"
    yield f"# run directory (`train` makes it first): {plan.run_dir}"
    if not plan.is_local and plan.nodes == 1 and plan.master_port is None:
        plan = replace(plan, master_port=free_port())
        yield f"# port {plan.port} is free now; a launch chooses one when it starts"
    for node, line in enumerate(command_lines(plan)):
        if plan.nodes > 1:
            yield f"# host {node} of {plan.nodes}{' (this one)' if node == plan.node_rank else ''}"
        yield shlex.join([*_environment(plan, inherited), *line])


def _environment(plan: LaunchPlan, inherited: Mapping[str, str]) -> list[str]:
    """As words of env(1)."""
    gone = [name for name in (*FOREIGN, *(key for key, value in plan.env.items() if value is None)) if name in inherited]
    variables = {**always(inherited), **additions(plan, inherited)}
    name, folder = python_name() or "python", python_folder(plan)
    if not plan.is_local and shutil.which(name, path=inherited.get("PATH")) != str(folder / name):  # msrun looks its python up
        variables["PATH"] = os.pathsep.join(filter(None, [str(folder), inherited.get("PATH")]))
    return ["env", *(word for name in gone for word in ("-u", name)), *(f"{name}={value}" for name, value in variables.items())]
