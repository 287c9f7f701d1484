"""What is to be started: the launcher's only input besides the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindrecipe.launch.restart import RestartPolicy
from mindrecipe.runfiles import RunFiles

LOOK_ELSEWHERE_EVERY = 13  # looks at local files for one at those of other hosts: 2 s, so that hundreds of ranks don't load a shared disk
DEFAULT_PORT = 8118  # msrun's own; used on several hosts, where all must name the same one


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """One launch of a frozen run directory.

    ``node_rank`` is null only with one host; ``master_port`` null means a free one on one host, msrun's default on several.
    ``threads_per_worker`` null: on CPU the cores shared by this host's ranks, elsewhere as the user's environment says.
    ``env`` is set for every rank, null unsets; before it ``variables``, which knobs stand for. ``stop_grace`` seconds lie between asking
    ranks to save and leave, and killing them.
    Without a step for ``stall_timeout`` median steps, and at least ``stall_min`` seconds, the job hangs; null: it never does.
    With fewer than ``disk_low`` bytes free, ``disk_action`` (off, warn, stop) follows; ``disk_need`` bytes must be free at the start,
    besides a small reserve. ``resume_hint`` is the command that goes on from the last checkpoint.
    ``saves``: the ranks save checkpoints, also when they are told to stop.
    ``worker`` are the python arguments that start a rank, before the run directory; ``msrun`` replaces the msrun of this Python,
    ``msrun_args`` are further options of it.
    """

    run_dir: Path
    nodes: int = 1
    devices_per_node: int = 1
    node_rank: int | None = None
    master_addr: str = "127.0.0.1"
    master_port: int | None = None
    cluster_time_out: int = 600
    threads_per_worker: int | None = None
    env: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    stop_grace: float = 30.0
    stall_timeout: float | None = None
    stall_min: float = 120.0
    disk_low: int = 0
    disk_action: str = "off"
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    total_steps: int | None = None
    title: str = "run"
    resume_hint: str | None = None
    saves: bool = True
    dry_run: bool = False
    device_target: str = "CPU"
    disk_need: int = 0
    worker: tuple[str, ...] = ("-m", "mindrecipe.worker")
    msrun: tuple[str, ...] = ()
    msrun_args: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Ranks of the whole job."""
        return self.nodes * self.devices_per_node

    @property
    def is_local(self) -> bool:
        """One process needs no msrun, whatever was asked for: msrun's own wrapper starts nothing then, and says it succeeded."""
        return self.ranks == 1

    @property
    def node(self) -> int:
        """This host's place among the hosts."""
        return self.node_rank or 0

    @property
    def port(self) -> int:
        """The port of msrun's scheduler."""
        return DEFAULT_PORT if self.master_port is None else self.master_port

    @property
    def local_ranks(self) -> range:
        """The ranks of this host."""
        return range(self.node * self.devices_per_node, (self.node + 1) * self.devices_per_node)

    @property
    def files(self) -> RunFiles:
        """What stands where in the run directory."""
        return RunFiles(path=self.run_dir)

    @property
    def launch_log(self) -> Path:
        """What msrun itself says, of this host."""
        return self.files.launch_log(self.node, self.nodes)
