"""What is watched while a run trains, and what is done about it."""

from __future__ import annotations

from dataclasses import dataclass

from mindrecipe.config.schema.knob import knob

ACTIONS = ("off", "warn", "stop", "roll_back")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchConfig:
    """Watchers and their actions: warn says it, stop ends the run as failed, roll_back starts again before that step
    (within launch.max_restarts; without any it is a stop).
    """

    loss_nonfinite: str = knob(
        "roll_back",
        "The loss is NaN or infinite; skip: go on while its update was skipped, for at most overflow_steps steps in a row.",
        choices=("stop", "skip", "roll_back"),
    )
    loss_spike: str = knob(
        "warn",
        "The loss exceeds loss_spike_factor times its median over window steps; skip: no update then, for at most overflow_steps in a row.",
        choices=(*ACTIONS, "skip"),
    )
    loss_spike_factor: float = knob(1.5, "Times the median that is a spike.", gt=1)
    grad_spike: str = knob(
        "warn",
        "The gradient norm exceeds grad_spike_factor times its median over window steps; skip: from grad_norm_limit on no update.",
        choices=(*ACTIONS, "skip"),
    )
    grad_spike_factor: float = knob(10.0, "Times the median that is a spike.", gt=1)
    grad_norm_limit: float | None = knob(None, "Gradient norm (before clipping) from which grad_spike=skip leaves the update out.", gt=0)
    window: int = knob(50, "Steps the median is taken over; spikes are looked for once a fifth of them is done.", unit="steps", ge=5)
    overflow_streak: str = knob(
        "roll_back", "Updates are skipped again and again although the loss scale no longer falls.", choices=("stop", "roll_back")
    )
    overflow_steps: int = knob(8, "Skipped updates in a row that are borne.", unit="steps", ge=1)
    slow_rank: str = knob("warn", "A rank keeps the others waiting: slow data or callbacks on its host.", choices=("off", "warn", "stop"))
    slow_rank_share: float = knob(0.5, "Share of the step time that a rank may be behind the others' median, over 20 steps.", gt=0)
    disk: str = knob("warn", "The run directory's disk is nearly full.", choices=("off", "warn", "stop"))
    disk_gb: float = knob(2.0, "Free space below which it is.", unit="GiB", gt=0)
