"""Checkpoints in mindformers' two layouts: files of each rank through the callback, or the ``checkpoint`` section.

.ckpt goes through the callback. safetensors goes through the section, which the callback's own safetensors need on one device
to be resumed (runs), but for replicated models, where the section can't save. checkpoint.style overrides: imported
configurations have it.
"""

from __future__ import annotations

from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.lower.place import Place

#: an interval no run reaches: the callback then writes only its final checkpoint
NEVER = 1_000_000_000


def lower(derived: Derived, place: Place) -> dict[str, Any]:
    """Top-level checkpoint keys, and the ``checkpoint`` section for safetensors."""
    given = derived.config.checkpoint
    if in_section(derived):
        return {
            "load_checkpoint": "",
            "load_ckpt_format": "safetensors",
            "resume_training": False,
            "auto_trans_ckpt": False,
            "checkpoint": _section(derived, place),
        }
    resume = place.resume
    return {
        "load_checkpoint": resume.folder if resume else place.load or "",
        "load_ckpt_format": given.format,
        "resume_training": (resume.file_name or True) if resume else False,
        "auto_trans_ckpt": False,
    }


def callbacks(derived: Derived, place: Place) -> list[dict[str, Any]]:
    """The CheckpointMonitor, or nothing where nothing is to be saved."""
    given = derived.config.checkpoint
    if not saves(derived):
        return []
    if in_section(derived):
        return [{"type": "CheckpointMonitor"}]
    monitor: dict[str, Any] = {
        "type": "CheckpointMonitor",
        "prefix": derived.config.run.name,
        "directory": place.output_dir,
        "save_checkpoint_steps": given.save_steps or (None if given.save_minutes else NEVER),
        "keep_checkpoint_max": given.keep,
        "integrated_save": False,
        "async_save": given.async_save,
        "checkpoint_format": given.format,
    }
    if given.save_minutes is not None:
        monitor["save_checkpoint_seconds"] = max(1, round(60 * given.save_minutes))
    return [monitor]


def saves(derived: Derived) -> bool:
    """Whether anything is saved at all."""
    given = derived.config.checkpoint
    return given.save_steps is not None or given.save_minutes is not None or given.save_final


def in_section(derived: Derived) -> bool:
    """Whether mindformers is told in its section ``checkpoint``, or in the callback's own arguments."""
    given = derived.config.checkpoint
    # the section describes how sharded weights are cut: mindformers can't save with it where every rank holds the whole model
    replicated = derived.config.parallel.mode in ("data_parallel", "hybrid")
    return (given.style or ("section" if given.format == "safetensors" and not replicated else "callback")) == "section"


def _section(derived: Derived, place: Place) -> dict[str, Any]:
    given, resume = derived.config.checkpoint, place.resume
    return {
        "save_path": f"{place.output_dir}/checkpoint",
        "save_max": given.keep,
        "save_interleaved_steps": given.save_steps or NEVER,
        "prefix": derived.config.run.name,
        "no_save_optim": False,
        "async_save": given.async_save,
        "save_remove_redundancy": False,
        "load_path": resume.folder if resume else place.load or "",
        "no_load_optim": resume is None,
    }
