"""callbacks, load_checkpoint, the section checkpoint, profile -> the knobs of checkpoint and profile."""

from __future__ import annotations

from typing import Any

from mindrecipe.bridge.raise_.raised import Raised

#: up to 1.1 the callback was misspelt
_MONITORS = ("CheckpointMonitor", "CheckpointMointor")


def raise_(r: Raised) -> None:
    """Fill checkpoint.* and profile.*."""
    section = r.section("checkpoint") if r.has("checkpoint") else None
    callbacks: Any = r.get("callbacks")
    found = next(
        (item for item in callbacks if isinstance(item, dict) and item.get("type") in _MONITORS)
        if isinstance(callbacks, list)
        else iter(()),
        None,
    )
    if section is not None and found is not None:
        _section(r, section)
    elif found is not None:
        _callback(r, found)
    else:
        r.put("checkpoint.save_final", False)
    if section is None:
        written = (found or {}).get("checkpoint_format", r.get("load_ckpt_format", default="ckpt"))
        mcore = not r.get("use_legacy", default=True)
        # mindformers saves mcore models as safetensors whatever is written (base_trainer.py:1417)
        safetensors = mcore or written == "safetensors"
        r.put("checkpoint.format", "safetensors" if safetensors else "ckpt", "load_ckpt_format")
        r.put("checkpoint.style", "callback" if safetensors else None)
    load = r.get("load_checkpoint")
    if isinstance(load, str) and load and not r.get("resume_training", default=False):
        r.put("checkpoint.load", load, "load_checkpoint")
    if r.get("profile") is True:
        r.put("profile.enabled", True, "profile")
        r.take("profile.start", "profile_start_step", default=1)
        r.take("profile.stop", "profile_stop_step", default=10)
        r.take("profile.ranks", "profile_rank_ids", default=None)
        r.take("profile.level", "profiler_level", default=0)
        r.take("profile.memory", "profile_memory", default=True)


def _callback(r: Raised, monitor: dict[str, Any]) -> None:
    path = ("callbacks", monitor["type"])
    seconds = monitor.get("save_checkpoint_seconds")
    if isinstance(seconds, int) and seconds > 0:
        r.put("checkpoint.save_minutes", seconds / 60, *path, "save_checkpoint_seconds")
    else:
        r.put("checkpoint.save_steps", _interval(monitor.get("save_checkpoint_steps", 1)), *path, "save_checkpoint_steps")
    r.put("checkpoint.keep", monitor.get("keep_checkpoint_max", 5), *path, "keep_checkpoint_max")
    r.put("checkpoint.async_save", monitor.get("async_save", False), *path, "async_save")


def _section(r: Raised, section: dict[str, Any]) -> None:
    r.put("checkpoint.format", r.get("load_ckpt_format", default="ckpt"), "load_ckpt_format")
    r.put("checkpoint.style", "section" if r.values.get("checkpoint.format") == "ckpt" else None)
    r.put("checkpoint.save_steps", _interval(section.get("save_interleaved_steps", 1)), "checkpoint", "save_interleaved_steps")
    r.put("checkpoint.keep", section.get("save_max", 5), "checkpoint", "save_max")
    r.put("checkpoint.async_save", section.get("async_save", False), "checkpoint", "async_save")
    load = section.get("load_path")
    if isinstance(load, str) and load:
        r.put("checkpoint.load", load, "checkpoint", "load_path")


def _interval(steps: Any) -> Any:
    """An interval that no run reaches is our lowering's word for "only at the end" (lower/checkpoint.py)."""
    from mindrecipe.lower.checkpoint import NEVER

    return None if steps == NEVER else steps
