"""optimizer, lr_schedule, runner_wrapper, runner_config.epochs -> the knobs of optimizer and schedule."""

from __future__ import annotations

from typing import Any

from mindrecipe.bridge.raise_.raised import Raised
from mindrecipe.lower.optimization import SCHEDULE_TYPES

_OURS = {native: ours for ours, native in SCHEDULE_TYPES.items()} | {
    # aliases mindformers registers (core/lr/build_lr.py:79)
    "constant_with_warmup": "constant",
    "linear": "linear",
    "cosine": "cosine",
    "cosine_with_restarts": "cosine_restarts",
    "polynomial": "polynomial",
    "cosine_annealing": "cosine_annealing",
    "cosine_annealing_warm_restarts": "cosine_annealing_restarts",
}
_NEED_STEPS = ("constant_cooldown", "cosine_annealing", "cosine_annealing_restarts")
_ADAM = ("AdamW", "PmaAdamW", "FusedPmaAdamW")


def raise_(r: Raised) -> None:
    """Fill optimizer.* and schedule.*."""
    _optimizer(r)
    _schedule(r)
    r.take("run.seed", "seed", default=1)


def _optimizer(r: Raised) -> None:
    r.take("optimizer.type", "optimizer", "type", default="AdamW")
    adam = r.values.get("optimizer.type") in _ADAM
    r.take("optimizer.betas", "optimizer", "betas", default=[0.9, 0.999] if adam else None)
    r.take("optimizer.eps", "optimizer", "eps", default=1.0e-8 if adam else None)
    r.take("optimizer.weight_decay", "optimizer", "weight_decay", default=0.0)
    wrapper = r.section("runner_wrapper") or {"use_clip_grad": True}
    clip = wrapper.get("max_grad_norm", 1.0) if wrapper.get("use_clip_grad", False) is True else None
    r.put("optimizer.grad_clip", clip, "runner_wrapper", "max_grad_norm" if "max_grad_norm" in wrapper else "use_clip_grad")
    r.sources.setdefault(("runner_wrapper", "use_clip_grad"), "optimizer.grad_clip")
    schedule = r.section("lr_schedule")
    for path in (("lr_schedule", "learning_rate"), ("lr_schedule", "base_lr"), ("optimizer", "learning_rate")):
        if isinstance(r.get(*path), int | float) and r.put("optimizer.learning_rate", r.get(*path), *path):
            break
    else:
        if not schedule:
            r.put("optimizer.learning_rate", 5.0e-5)  # the template's


def _schedule(r: Raised) -> None:
    native = r.get("lr_schedule", "type", default="CosineWithWarmUpLR")
    kind = _OURS.get(native, native) if isinstance(native, str) else "cosine"
    steps = _stop_step(r)
    if steps is None and kind in _NEED_STEPS:
        kind = native  # ours works its lengths out from total_steps: without them it stays mindformers' own
    r.put("schedule.type", kind, "lr_schedule", "type")
    r.take("schedule.epochs", "runner_config", "epochs", default=1)
    if steps is not None:
        r.put("schedule.total_steps", steps, "callbacks", "TrainCallBack", "stop_step")
    if not kind.startswith("cosine_annealing"):
        r.take("schedule.warmup_steps", "lr_schedule", "warmup_steps")
        r.take("schedule.warmup_ratio", "lr_schedule", "warmup_ratio")
        r.take("schedule.warmup_lr_init", "lr_schedule", "warmup_lr_init", default=0.0)
    if kind not in ("constant", "linear"):
        r.take("schedule.lr_end", "lr_schedule", "eta_min" if kind.startswith("cosine_annealing") else "lr_end")
    if kind in ("cosine", "cosine_restarts"):
        r.take("schedule.num_cycles", "lr_schedule", "num_cycles", default=0.5 if kind == "cosine" else 1.0)
    if kind == "polynomial":
        r.take("schedule.power", "lr_schedule", "power", default=1.0)
    if kind in ("wsd", "constant_cooldown"):
        _final_decay(r, kind, steps)


def _final_decay(r: Raised, kind: str, total: int | None) -> None:
    schedule = r.section("lr_schedule")
    start, ratio = schedule.get("decay_start_steps"), schedule.get("decay_start_ratio")
    if kind == "wsd" and isinstance(start, int) and total is not None and total > start:
        r.put("schedule.decay_steps", total - start, "lr_schedule", "decay_start_steps")
    elif kind == "wsd" and isinstance(ratio, float) and 0 <= ratio < 1:
        r.put("schedule.decay_ratio", round(1 - ratio, 12), "lr_schedule", "decay_start_ratio")
    elif kind == "constant_cooldown":
        r.take("schedule.decay_steps", "lr_schedule", "decay_steps")
        r.take("schedule.decay_ratio", "lr_schedule", "decay_ratio")
        r.take("schedule.lr_end", "lr_schedule", "lr_end1")


def _stop_step(r: Raised) -> int | None:
    """The step a TrainCallBack ends the run at: the one thing that does (runner_config.stop_step is not read)."""
    callbacks: Any = r.get("callbacks", default=[])
    for callback in callbacks if isinstance(callbacks, list) else []:
        if isinstance(callback, dict) and callback.get("type") == "TrainCallBack":
            step = callback.get("stop_step")
            return step if isinstance(step, int) and step > 0 else None
    return None
