"""What a comparison needs of a run: who it was, its figures, its step times in blocks, its losses by step. A baseline keeps just this."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mindrecipe.judge.recorded import Recorded
from mindrecipe.launch.claim import holder
from mindrecipe.measure import numbers
from mindrecipe.measure.used import others_share

BLOCK = 10  # consecutive steps that are drawn together: neighbours share what else the machine did
MOST_BLOCKS = 200
LAST = 20  # losses whose mean is the final loss: one batch more or less must not decide
MOST_LOSSES = 10_000
NOISY = 0.10  # share of the cores that others may use while a CPU run is timed

Hardware = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which run this was. ``hardware`` and ``data`` must be equal for two runs to be compared; the rest is told with the verdict.

    ``drawn`` is what makes batches of the data, besides ``seed``: the seed of their order and so on; baselines of before it was kept have
    none of it.
    """

    run: str
    model: str | None
    recipe: str | None
    config_hash: str | None
    hardware: Hardware
    data: str | None
    seed: int | None
    versions: dict[str, str | None]
    time: str | None
    drawn: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures of one run: null is "was not measured".

    ``blocks`` are step times (seconds) of consecutive steps, equally many in each, ``cpu_blocks`` the CPU time of the same steps
    (empty where it was not recorded); ``losses`` by step; ``others`` is the share of the cores that the run may use which other processes
    used while it trained. ``evaluation`` is the newest one of the run in a fresh process, empty without.
    """

    identity: Identity
    state: str
    tokens_per_step: int
    blocks: list[list[float]]
    cpu_blocks: list[list[float]]
    losses: dict[int, float]
    final_loss: float | None
    heldout_loss: float | None
    peak_memory_bytes: int | None
    others: float | None
    evaluation: dict[str, Any]

    @property
    def step_times(self) -> list[float]:
        """All of them, in their order."""
        return [took for block in self.blocks for took in block]

    @property
    def tokens_per_s(self) -> float | None:
        """From the median step."""
        times = self.step_times
        return self.tokens_per_step / statistics.median(times) if times else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, losses by their step as text; what is not finite is text."""
        told = asdict(self)
        told["losses"] = {str(step): loss for step, loss in self.losses.items()}
        return dict(numbers.plain(told))

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Measured:
        """The inverse of :meth:`as_dict`."""
        told = dict(told)
        told["identity"] = Identity(**told["identity"])
        told["losses"] = {int(step): float(loss) for step, loss in told["losses"].items()}
        return cls(**{name: value if name in ("identity", "losses") else numbers.told(value) for name, value in told.items()})


def measure(run: Recorded) -> Measured:
    """The figures of a recorded run."""
    return Measured(
        identity=identify(run),
        state=state_of(run),
        tokens_per_step=int(run.derived.get("tokens_per_step") or 0),
        blocks=in_blocks([record.step_time for record in run.timed]),
        cpu_blocks=in_blocks([record.cpu_time for record in run.timed if record.cpu_time is not None]),
        losses=_thinned({record.step: record.loss for record in run.steps}),
        final_loss=final_loss(run.losses),
        heldout_loss=run.summary.get("heldout_loss"),
        peak_memory_bytes=run.summary.get("peak_memory_bytes"),
        others=use_of_others(run),
        evaluation=run.evaluation,
    )


def state_of(run: Recorded) -> str:
    """How it ended; "running" where a launch works in it now, "unfinished" where one was killed before it could say."""
    return "running" if holder(run.path) is not None else str(run.summary.get("state", "unfinished"))


def identify(run: Recorded) -> Identity:
    """Who the run was, from its lock."""
    lock, machine = run.lock, run.lock.get("machine") or {}
    options = lock.get("options") or {}
    recipe = options.get("recipe")
    kept = ("cpu", "cores", "npu", "npu_count")
    return Identity(
        run=str(run.path),
        model=run.config.get("model", {}).get("name"),
        recipe=None if recipe in (None, "None") else str(recipe),
        config_hash=lock.get("config_hash"),
        hardware={
            "device": run.derived.get("device"),
            "device_num": run.derived.get("device_num"),
            **{key: machine.get(key) for key in kept},
        },
        data=lock.get("dataset_hash"),
        seed=run.derived.get("seed"),
        versions={**(lock.get("packages") or {}), "python": lock.get("python"), "cann": lock.get("cann"), "driver": lock.get("driver")},
        time=lock.get("created"),
        drawn=_drawn(run),
    )


def _drawn(run: Recorded) -> dict[str, Any]:
    """How a run's batches are drawn from its data; what native.* says of it has the last word, as in training."""
    data, native = run.config.get("dataset") or {}, (run.config.get("native") or {}).get("train_dataset") or {}
    loader = native.get("data_loader") or {}
    return {
        "seed": native.get("seed", run.derived.get("data_seed")),
        "shuffle": loader.get("shuffle", data.get("shuffle")),
        "drop_remainder": native.get("drop_remainder", data.get("drop_remainder")),
        "shard": [data.get("shard_id"), data.get("num_shards")],
        "loader": {key: value for key, value in loader.items() if key not in ("shuffle", "num_parallel_workers")},
    }


def in_blocks(times: Sequence[float], size: int = BLOCK) -> list[list[float]]:
    """The last up to MOST_BLOCKS * size times in blocks; fewer than two blocks are none, since nothing could be said of their spread."""
    count = min(len(times) // size, MOST_BLOCKS)
    tail = list(times)[len(times) - count * size :]
    return [tail[place : place + size] for place in range(0, len(tail), size)] if count >= 2 else []


def final_loss(losses: Sequence[float]) -> float | None:
    """Mean of the last up to 20 losses."""
    return statistics.fmean(losses[-LAST:]) if losses else None


def use_of_others(run: Recorded) -> float | None:
    """Share (0 to 1) that processes beside this run's used, while it trained, of those cores of the first rank's host that the run may
    use; None where it was not sampled."""
    trains = [event.time for event in run.events if event.phase == "train" and event.rank == 0]
    ends = [event.time for event in run.events if event.phase in ("evaluate", "done") and event.rank == 0]
    local = int(run.derived.get("devices_per_node") or 1)
    if not trains or 0 not in run.usage:
        return None
    last = ends[-1] if ends else math.inf
    own = [usage.cpu for rank, samples in run.usage.items() if rank < local for usage in samples if trains[-1] < usage.time < last]
    host = [usage for usage in run.usage[0] if trains[-1] < usage.time < last]
    cores = host[0].host_cores or (run.lock.get("machine") or {}).get("cores") if host else None
    if not own or not cores:
        return None
    ranks = min(local, len(run.usage))
    return others_share(statistics.fmean(usage.host_cpu for usage in host), statistics.fmean(own) * ranks, int(cores))


def _thinned(losses: dict[int, float]) -> dict[int, float]:
    """At most about MOST_LOSSES of them; the last ones, which the final loss is of, are always kept."""
    stride, last = math.ceil(len(losses) / MOST_LOSSES) if losses else 1, set(sorted(losses)[-LAST:])
    return {step: loss for step, loss in losses.items() if step % stride == 0 or step in last}
