"""Whether this machine can run a recipe, and what is possible where it can't."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from mindrecipe.derive import Derived
from mindrecipe.derive.machine import Machine
from mindrecipe.derive.surroundings import top_module
from mindrecipe.errors import UserError


def require_imports(modules: list[str]) -> None:
    """Raise UserError where a module of run.imports is nowhere to be found; importing it is the ranks' matter."""
    for name in modules:
        if top_module(name.partition(".")[0]) is None:
            raise UserError(
                f"run.imports: there is no module {name}",
                where=f"run.imports={modules}",
                mend="modules are found in the folder the run is started from, in PYTHONPATH and among installed packages",
            )


def require_here(derived: Derived, machine: Machine, overrides: tuple[str, ...]) -> None:
    """Raise UserError where the devices that this host is to bring are not there, with what can be done instead."""
    needed, hardware = derived.config.launch.devices_per_node or 1, derived.hardware
    if hardware.target == "CPU":
        return
    hosts = f" on each of {derived.config.launch.nodes} hosts" if derived.config.launch.nodes > 1 else ""
    words = shlex.join(overrides)
    if machine.npu_count == 0:
        because = f"; it was chosen because {derived.device_reason}" if derived.device_reason else ""
        raise UserError(
            f"this recipe needs {needed} x {hardware.title}{hosts}, and this machine has no NPU (no /dev/davinci*){because}",
            mend=(
                "the same command on the cluster. The recipe is sound (all checks passed); here you can\n"
                f"          write the native YAML:  mindrecipe export {words} -o mindformers.yaml\n"
                f"          look at what follows:   mindrecipe show {words}\n"
                f"          compile it, no devices: mindrecipe simulate {words}\n"
                f"          train a tiny model:     train +model={_tiny(derived)}\n"
                f"          rehearse several ranks: train +model={_tiny(derived)} parallel=data launch.workers=2"
            ),
        )
    if machine.npu not in (hardware.name, hardware.series, "unknown"):
        raise UserError(f"this recipe is for {hardware.title}, and this machine has {machine.npu}", mend=f"device={machine.npu}")
    if machine.npu_count < needed:
        raise UserError(
            f"this recipe needs {needed} devices on this host, and there are {machine.npu_count}",
            mend=f"launch.devices_per_node={machine.npu_count}",
        )
    if derived.config.launch.rank_table is not None:
        _require_rank_table(Path(derived.config.launch.rank_table).expanduser(), derived.device_num)


def _require_rank_table(path: Path, ranks: int) -> None:
    """The file is there, is JSON, and names as many ranks as the job has, where it names them as HCCL's do."""
    where = f"launch.rank_table={path}"
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else f"it is no JSON ({fault})"
        raise UserError(f"the rank table {path} can't be read: {why}", where=where, mend="launch.rank_table=null") from fault
    servers = table.get("server_list", []) if isinstance(table, dict) else []
    named = [device.get("rank_id") for server in servers for device in server.get("device", [])]
    if len(named) != ranks:
        raise UserError(
            f"the rank table {path} names {len(named)} ranks, and the job has {ranks}", where=where, mend="launch.rank_table=null"
        )


def _tiny(derived: Derived) -> str:
    return "llama2_tiny" if derived.family.architecture == "legacy" else "qwen3_tiny"
