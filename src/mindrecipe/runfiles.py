"""What stands where in a run directory: the one place that knows the names, for the launcher, the ranks and every reader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CONFIG, OVERRIDES, NATIVE, LOCK = "config.yaml", "overrides.yaml", "mindformers.yaml", "lock.json"
CHECKPOINT = "checkpoint"
LOGS = "logs"
METRICS = "metrics.jsonl"
#: the variable that names the file in which a job of a sweep tells its run directory
SWEEP_JOB = "MINDRECIPE_SWEEP_JOB"
#: the variable that tells the hosts of launch=ssh and launch=slurm the overrides of the command that started them all, as JSON
HANDED_OVER = "MINDRECIPE_HANDED_OVER"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of the run directory ``path``; whether they are there is another matter."""

    path: Path

    @property
    def native(self) -> Path:
        """mindformers' own configuration."""
        return self.path / NATIVE

    @property
    def lock(self) -> Path:
        """What the run was made of, and what was derived."""
        return self.path / LOCK

    @property
    def metrics(self) -> Path:
        """StepRecord lines, written by rank 0."""
        return self.path / METRICS

    @property
    def attempts(self) -> Path:
        """One line for each time the ranks were started."""
        return self.path / "attempts.jsonl"

    def summary(self, node: int = 0) -> Path:
        """How it ended. The first host's is summary.json; others write their own view beside it (they may share the folder)."""
        return self.path / ("summary.json" if node == 0 else f"summary.node_{node}.json")

    @property
    def checkpoints(self) -> Path:
        """What CheckpointMonitor writes."""
        return self.path / CHECKPOINT

    @property
    def logs(self) -> Path:
        """Where every process of the run writes."""
        return self.path / LOGS

    def rank_log(self, rank: int) -> Path:
        """Output of one rank."""
        return self.logs / f"rank_{rank}.log"

    def events(self, rank: int) -> Path:
        """Event lines of one rank."""
        return self.logs / f"rank_{rank}.events.jsonl"

    def rank_steps(self, rank: int) -> Path:
        """RankStep lines of one rank."""
        return self.logs / f"rank_{rank}.steps.jsonl"

    def usage(self, rank: int) -> Path:
        """Usage lines of one rank."""
        return self.logs / f"rank_{rank}.usage.jsonl"

    def last_sign(self, rank: int) -> float:
        """When a rank last wrote anything of its own (seconds since the epoch); 0 where it never did."""
        written = [self.rank_log(rank), self.events(rank), self.rank_steps(rank), *([self.metrics] if rank == 0 else [])]
        return max((path.stat().st_mtime for path in written if path.exists()), default=0.0)

    def launch_log(self, node: int = 0, nodes: int = 1) -> Path:
        """What msrun itself says (of one host, where several share the folder)."""
        return self.logs / ("msrun.log" if nodes == 1 else f"msrun_{node}.log")

    def heldout(self, rank: int) -> Path:
        """Held-out loss of one rank's shard."""
        return self.path / "heldout" / f"rank_{rank}.json"

    def simulation(self, rank: int) -> Path:
        """What a simulated rank holds (see measure/holdings.py)."""
        return self.path / "simulation" / f"rank_{rank}.holdings.json"

    def scratch(self, rank: int) -> Path:
        """Working folder of one rank: catches what mindspore drops into the current folder."""
        return self.path / "scratch" / f"rank_{rank}"
