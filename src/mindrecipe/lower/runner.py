"""runner_config, the callbacks that end and print, profiling: how long a run goes on and what it tells."""

from __future__ import annotations

import math
from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.lower.place import Place

_NO_LIMIT = 3.0e38  # float32 has nothing beyond but infinity, which is no finite norm


def lower(derived: Derived) -> dict[str, Any]:
    """The ``runner_config`` section. CPU never sinks: mindformers multiplies the epochs there (trainer/utils.py check_runner_config)."""
    return {
        "epochs": epochs(derived),
        "batch_size": derived.config.dataset.batch_size,
        "sink_mode": derived.hardware.target != "CPU",
        "sink_size": 1,
        "gradient_accumulation_steps": derived.batch.gradient_accumulation_steps,
    }


def epochs(derived: Derived) -> int:
    """Passes over the data that are enough for total_steps; where the data set is not known, one a step always is."""
    total, per_epoch = derived.total_steps, derived.steps_per_epoch
    if total is None:
        return derived.config.schedule.epochs
    return math.ceil(total / per_epoch) if per_epoch else total


def callbacks(derived: Derived, place: Place) -> list[dict[str, Any]]:
    """The callback that ends the run at total_steps (runner_config.stop_step is dead code in base_trainer.py), and mindformers' printer.

    mindformers counts the steps of this process: a resumed run stops after what is left.
    """
    native: list[dict[str, Any]] = []
    if derived.total_steps is not None:
        native.append({"type": "TrainCallBack", "stop_step": derived.total_steps - (place.resume.step if place.resume else 0)})
    return [*native, {"type": "MFLossMonitor", "per_print_times": 1}]


def watching(derived: Derived, place: Place) -> dict[str, Any]:
    """mindformers' top-level keys for its profiler and the skipping of updates, only where they are on."""
    watch = derived.config.watch
    native: dict[str, Any] = {}
    if "skip" in (watch.grad_spike, watch.loss_spike):  # of the loss: the worker computes the threshold from it (worker/loss_gate.py)
        limit = watch.grad_norm_limit if watch.grad_spike == "skip" else None
        native["use_skip_data_by_global_norm"] = True
        native["monitor_config"] = {"global_norm_spike_threshold": _NO_LIMIT if limit is None else limit}
    return native | _profile(derived, place.resume.step if place.resume else 0)


def _profile(derived: Derived, done: int) -> dict[str, Any]:
    """Its window, in steps of this process, which mindformers counts; none where ``done`` steps of the run lie beyond it.

    It must close before the run ends: what is still open then is never analysed (profiler.py: "may be incomplete").
    """
    profile = derived.config.profile
    stop = min(profile.stop, derived.total_steps or profile.stop)
    if not profile.enabled or stop <= done:
        return {}
    return {
        "profile": True,
        "profile_start_step": max(1, profile.start - done),
        "profile_stop_step": stop - done,
        "init_start_profile": False,
        "profile_communication": False,
        "profile_memory": profile.memory,
        "profiler_level": profile.level,
        **({"profile_rank_ids": profile.ranks} if profile.ranks is not None else {}),
    }
