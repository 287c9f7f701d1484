"""The bandwidth of an all-reduce over this host's ranks, for a sweep of sizes: started through msrun, as a training is."""

from __future__ import annotations

import json
import subprocess
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from mindrecipe.errors import UserError
from mindrecipe.launch.failure import last_exception
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.ports import reserve_free
from mindrecipe.launch.processes import Tree
from mindrecipe.launch.start import start
from mindrecipe.measure.tail import last_lines


@dataclass(frozen=True, slots=True)
class Reduced:
    """An all-reduce of ``size`` bytes took ``seconds`` (median). ``bus`` is bytes/s on the wire: 2 (n-1)/n times size over seconds,
    which does not depend on the number of ranks (NVIDIA nccl-tests, PERFORMANCE.md).
    """

    size: int
    seconds: float
    bus: float


def sweep(ranks: int, device_target: str, *, timeout: float = 300.0) -> list[Reduced]:
    """Measure over ``ranks`` ranks of this host. UserError where they do not come together."""
    with tempfile.TemporaryDirectory(prefix="mindrecipe-doctor-") as name, reserve_free() as port:
        folder = Path(name)
        (folder / "logs").mkdir()
        plan = LaunchPlan(
            run_dir=folder,
            devices_per_node=ranks,
            device_target=device_target,
            env={"MINDRECIPE_DEVICE_TARGET": device_target},
            worker=("-m", "mindrecipe.worker.collectives"),
        )
        run_id = uuid.uuid4().hex
        process = start(replace(plan, master_port=port.port), run_id)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            Tree(run_id).kill()
        results = folder / "all_reduce.json"
        if code != 0 or not results.is_file():
            what = f"{ranks} ranks did not come together in {timeout:.0f} s" if code == -1 else f"{ranks} ranks ended with code {code}"
            raise UserError(f"{what}: {_said(plan, ranks)}", mend="launch.master_port=<a free port>; the firewall of this host")
        factor = 2 * (ranks - 1) / ranks
        found = json.loads(results.read_text(encoding="utf-8"))
        return [Reduced(item["size"], item["seconds"], factor * item["size"] / item["seconds"]) for item in found]


def _said(plan: LaunchPlan, ranks: int) -> str:
    """The exceptions of the ranks; where none raised one, the end of msrun's log."""
    raised = {rank: last_exception(plan.files.rank_log(rank)) for rank in range(ranks)}
    said = [f"rank {rank}: {found[0]}: {found[1]}" for rank, found in raised.items() if found is not None]
    return " | ".join(said or last_lines(plan.launch_log, 3))[-300:]
