"""optimizer, lr_schedule, runner_wrapper: how a gradient becomes an update."""

from __future__ import annotations

import math
from typing import Any

from mindrecipe.config.schema import ScheduleConfig
from mindrecipe.derive import Derived
from mindrecipe.errors import UserError

#: our names of mindformers' schedules (core/lr/lr_schedule.py)
SCHEDULE_TYPES = {
    "constant": "ConstantWarmUpLR",
    "constant_cooldown": "ConstantWithCoolDownLR",
    "linear": "LinearWithWarmUpLR",
    "cosine": "CosineWithWarmUpLR",
    "cosine_restarts": "CosineWithRestartsAndWarmUpLR",
    "polynomial": "PolynomialWithWarmUpLR",
    "wsd": "WarmUpStableDecayLR",
    "cosine_annealing": "CosineAnnealingLR",
    "cosine_annealing_restarts": "CosineAnnealingWarmRestarts",
}


def lower(derived: Derived) -> dict[str, Any]:
    """The sections optimizer, lr_schedule and runner_wrapper."""
    return {"optimizer": _optimizer(derived), "lr_schedule": schedule(derived), "runner_wrapper": _wrapper(derived)}


def _optimizer(derived: Derived) -> dict[str, Any]:
    optimizer = derived.config.optimizer
    native: dict[str, Any] = {"type": optimizer.type}
    if optimizer.betas is not None:
        native["betas"] = optimizer.betas
    if optimizer.eps is not None:
        native["eps"] = optimizer.eps
    return native | {"learning_rate": optimizer.learning_rate, "weight_decay": optimizer.weight_decay} | optimizer.extra


def schedule(derived: Derived) -> dict[str, Any]:
    """The lr_schedule section. total_steps -1 lets mindformers count the data set, where we do not know it.

    UserError for a schedule that mindformers can't be told without total_steps.
    """
    given = derived.config.schedule
    if derived.total_steps is None and _needs_total(given):
        raise UserError(
            f"schedule={given.type} can't be written without schedule.total_steps while the data set is not known",
            mend="schedule.total_steps=1000",
        )
    peak, total = derived.config.optimizer.learning_rate, derived.total_steps
    native: dict[str, Any] = {"type": SCHEDULE_TYPES.get(given.type, given.type)}
    if given.type in ("cosine_annealing", "cosine_annealing_restarts"):
        length = total or 1
        native |= {"base_lr": peak, "eta_min": given.lr_end}
        native |= (
            {"t_max": length}
            if given.type == "cosine_annealing"
            else {"t_0": max(1, math.ceil(length / max(1.0, given.num_cycles))), "t_mult": 1}
        )
        return native | given.extra
    native |= {"learning_rate": peak, "warmup_lr_init": given.warmup_lr_init, "total_steps": -1 if total is None else total}
    if derived.warmup_steps is not None:
        native["warmup_steps"] = derived.warmup_steps
    else:
        native["warmup_ratio"] = given.warmup_ratio
    if given.type in ("cosine", "cosine_restarts", "polynomial", "wsd"):
        native["lr_end"] = given.lr_end
    if given.type in ("cosine", "cosine_restarts"):
        native["num_cycles"] = given.num_cycles
    if given.type == "polynomial":
        native["power"] = given.power
    if given.type in ("wsd", "constant_cooldown"):
        native |= _final_decay(derived)
    return native | given.extra


def _needs_total(given: ScheduleConfig) -> bool:
    """mindformers counts the data set for total_steps, not for what else follows from it."""
    lengths = ("constant_cooldown", "cosine_annealing", "cosine_annealing_restarts")
    return given.type in lengths or (given.type == "wsd" and given.decay_steps is not None)


def _final_decay(derived: Derived) -> dict[str, Any]:
    """wsd names the step its decay starts at; constant_cooldown the steps it stays and the steps it decays."""
    given, total, warmup = derived.config.schedule, derived.total_steps, derived.warmup_steps
    if total is None or warmup is None:
        return {"decay_start_ratio": 1 - given.decay_ratio}
    decay = given.decay_steps or max(1, int(total * given.decay_ratio))
    if given.type == "wsd":
        return {"decay_start_steps": total - decay}
    return {"keep_steps": max(0, total - warmup - decay), "decay_steps": decay, "lr_end1": given.lr_end}


def _wrapper(derived: Derived) -> dict[str, Any]:
    scale, clip = derived.loss_scale, derived.config.optimizer.grad_clip
    sense: Any = 1.0
    if scale.kind == "dynamic":
        sense = {
            "type": "DynamicLossScaleUpdateCell",
            "loss_scale_value": scale.value,
            "scale_factor": scale.factor,
            "scale_window": scale.window,
        }
    elif scale.kind == "fixed":
        sense = {"type": "FixedLossScaleUpdateCell", "loss_scale_value": scale.value}
    native: dict[str, Any] = {"type": "MFTrainOneStepCell", "scale_sense": sense, "use_clip_grad": clip is not None}
    if derived.config.monitor.grad_groups:
        native["local_norm"] = True
    return native | ({"max_grad_norm": clip} if clip is not None else {})
