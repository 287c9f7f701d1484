"""Every trap of a native config is refused, and the right config is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from frozen import STEPS, native

from mindrecipe import traps
from mindrecipe.errors import UserError

NOWHERE = Path("/nowhere")


def _setting(family: str = "llama", *, changes: dict[str, Any] | None = None, **about: Any) -> traps.Setting:
    config = native(family, NOWHERE, NOWHERE)
    for path, value in (changes or {}).items():
        *parents, key = path.split(".")
        place = config
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = value
    facts = {"world": 1, "total_steps": STEPS, "resumed_step": 0, "resume_asked": False} | about
    return traps.Setting(native=config, **facts)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_right_config_passes(family: str) -> None:
    traps.check(_setting(family))
    traps.check(_setting(family, world=2, changes={"use_parallel": True, "checkpoint": None}))


MODEL = "model.model_config"
STOP = {"type": "TrainCallBack", "stop_step": STEPS}
WRONG = [
    ("sink_mode", {"runner_config.sink_mode": True}, {}),
    ("sink_mode", {"runner_config.sink_mode": None}, {}),  # its default
    ("sink_size", {"context.device_target": "Ascend", "runner_config.sink_mode": True, "runner_config.sink_size": 4}, {"total_steps": 10}),
    ("gradients_mean", {"use_parallel": True, "parallel.gradients_mean": False}, {"world": 2}),
    ("gradients_mean", {"use_parallel": True, "parallel.parallel_mode": 3, "parallel.gradients_mean": False}, {"world": 2}),  # hybrid
    ("stop_step=5 has no effect", {"runner_config.stop_step": 5}, {}),
    ("TrainCallBack says nothing", {"callbacks": []}, {}),
    ("after 2 more steps", {}, {"total_steps": STEPS + 2, "resumed_step": STEPS}),
    ("nothing left to train", {}, {"resumed_step": STEPS}),
    ("accumulates only in semi_auto", {"runner_config.gradient_accumulation_steps": 4}, {}),
    ("would train alone", {}, {"world": 2}),
    ("names no checkpoint", {}, {"resume_asked": True}),
    ("names no checkpoint", {"resume_training": True}, {"resume_asked": True}),  # mindformers: trains from scratch
    ("nothing says at which step", {"resume_training": "x.ckpt", "load_checkpoint": "/c"}, {}),
    ("by the clock", {"use_parallel": True, "callbacks": [STOP, {"save_checkpoint_seconds": 60}]}, {"world": 2}),
    ("can not save", {"use_parallel": True, "checkpoint": {"save_path": "/c"}}, {"world": 2}),
    ("use_rope_slice", {f"{MODEL}.use_rope_slice": False}, {}),
    ("fused_rms_norm", {f"{MODEL}.fused_rms_norm": None}, {}),  # its default
    ("use_flash_attention", {f"{MODEL}.use_flash_attention": True}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("says", "changes", "about"), WRONG)
def test_a_trap_is_refused(says: str, changes: dict[str, Any], about: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=says) as refused:
        traps.check(_setting(changes=changes, **about))
    assert refused.value.mend


@pytest.mark.parametrize(("key", "value"), [("use_flash_attention", False), ("hidden_dropout", 0.1), ("attention_dropout", 0.1)])
def test_mcore_on_cpu(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=key):
        traps.check(_setting("qwen3", changes={f"{MODEL}.{key}": value}))


def test_what_only_cpu_lacks_is_allowed_on_ascend() -> None:
    changes = {
        "context.device_target": "Ascend",
        f"{MODEL}.fused_rms_norm": True,
        f"{MODEL}.use_flash_attention": True,
        f"{MODEL}.use_rope_slice": False,
    }
    traps.check(_setting(changes=changes | {"runner_config.sink_mode": True}))


def test_accumulation_is_allowed_where_mindformers_has_it() -> None:
    changes = {"use_parallel": True, "parallel.parallel_mode": 1, "runner_config.gradient_accumulation_steps": 4}
    traps.check(_setting(changes=changes, world=8))


def test_a_resumed_run_stops_after_what_is_left() -> None:
    callbacks = [{"type": "TrainCallBack", "stop_step": STEPS - 5}]
    changes = {"callbacks": callbacks, "load_checkpoint": "/c", "resume_training": "x_rank_0-1_5.ckpt"}
    traps.check(_setting(changes=changes, resumed_step=5, resume_asked=True))
    section = {"callbacks": callbacks, "checkpoint.load_path": "/c/iteration_00000005", "checkpoint.no_load_optim": False}
    traps.check(_setting("qwen3", changes=section, resumed_step=5, resume_asked=True))


def test_weights_alone_are_no_resume() -> None:
    traps.check(_setting(changes={"load_checkpoint": "/weights.ckpt"}))
    traps.check(_setting("qwen3", changes={"checkpoint.load_path": "/weights"}))
