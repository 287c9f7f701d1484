"""Rules of checkpoints that need no look at the disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePath

from mindrecipe.derive import Derived
from mindrecipe.rules.registry import TINY, Problem, rule

#: where mindformers, and checkpoints/find.py, would find the epoch, the step or the rank in a name (the first match counts)
_MISREAD = re.compile(r"-\d+_\d+\.(ckpt|safetensors)|-(model|opt)-\d+-\d+")


@rule(
    "checkpoint.two_intervals",
    "error",
    "MindSpore's CheckpointConfig takes one of them",
    outcome="stops",
    source="mindspore train/callback/_checkpoint.py CheckpointConfig",
    reads="checkpoint: save_minutes save_steps",
    fails=[f"{TINY} checkpoint.save_steps=10 checkpoint.save_minutes=10"],
    passes=[f"{TINY} checkpoint.save_minutes=10 checkpoint.save_steps=null"],
)
def two_intervals(d: Derived) -> Iterator[Problem]:
    """Checkpoints are to be saved by steps and by minutes."""
    c = d.config.checkpoint
    if c.save_steps is not None and c.save_minutes is not None:
        yield Problem(
            f"checkpoint.save_steps={c.save_steps} and save_minutes={c.save_minutes:g} together",
            ("checkpoint.save_minutes", "checkpoint.save_steps"),
            "checkpoint.save_steps=null",
        )


@rule(
    "checkpoint.interval",
    "warning",
    "only the final checkpoint would be written",
    outcome="costs",
    source="run: save_checkpoint_steps 1000 in 5 steps leaves only the final file; the same without one: LLaMA-Factory issue 5467",
    reads="checkpoint: save_steps; schedule: total_steps",
    fails=[f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 checkpoint.save_steps=1000"],
    passes=[f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 checkpoint.save_steps=75"],
)
def interval(d: Derived) -> Iterator[Problem]:
    """The first checkpoint would come after the last step."""
    c, total = d.config.checkpoint, d.config.schedule.total_steps
    if c.save_steps and total and c.save_steps > total:
        yield Problem(
            f"checkpoint.save_steps={c.save_steps} is beyond total_steps={total}",
            ("checkpoint.save_steps", "schedule.total_steps"),
            f"checkpoint.save_steps={max(1, total // 4)}",
        )


@rule(
    "checkpoint.restarts",
    "warning",
    "a restart goes on from the last checkpoint, and there is none before the end",
    outcome="costs",
    source="mindrecipe again.py",
    reads="checkpoint: save_final save_minutes save_steps; launch: max_restarts; schedule: total_steps",
    fails=[f"{TINY} launch.max_restarts=3", f"{TINY} launch.max_restarts=3 checkpoint=off"],
    passes=[TINY, f"{TINY} launch.max_restarts=3 checkpoint.save_minutes=10"],
)
def restarts(d: Derived) -> Iterator[Problem]:
    """The run may be started again, and saves nothing on the way."""
    c, most = d.config.checkpoint, d.config.launch.max_restarts
    if most > 0 and c.save_steps is None and c.save_minutes is None:
        steps = max(1, (d.config.schedule.total_steps or 1000) // 10)
        yield Problem(
            f"launch.max_restarts={most} without a checkpoint on the way: each restart begins anew",
            ("launch.max_restarts", "checkpoint.save_steps"),
            f"checkpoint.save_steps={steps}" + ("" if c.save_final else " checkpoint.save_final=true"),
        )


#: below so many steps a run without a checkpoint is a trial, and was asked for as one (checkpoint=off)
_LONG = 1000


@rule(
    "checkpoint.nothing_kept",
    "warning",
    "hours of training end without a model",
    outcome="costs",
    source="axolotl issue 1613: the model of six hours was missing",
    reads="checkpoint: save_final save_minutes save_steps; schedule: total_steps",
    fails=[f"{TINY} checkpoint.save_final=false schedule.total_steps=2000"],
    passes=[f"{TINY} checkpoint.save_final=false schedule.total_steps=20", f"{TINY} checkpoint.save_final=true"],
)
def nothing_kept(d: Derived) -> Iterator[Problem]:
    """Checkpoints are saved neither on the way nor at the end."""
    c = d.config.checkpoint
    is_long = (d.config.schedule.total_steps or _LONG) >= _LONG
    if is_long and c.save_steps is None and c.save_minutes is None and not c.save_final:
        yield Problem("no checkpoint will be written", ("checkpoint.save_final", "checkpoint.save_steps"), "checkpoint.save_final=true")


@rule(
    "checkpoint.always_final",
    "error",
    "MindSpore's checkpoint callback always writes one when training ends",
    outcome="ignored",
    source="mindspore train/callback/_checkpoint.py ModelCheckpoint.end",
    reads="checkpoint: save_final save_steps",
    fails=[f"{TINY} checkpoint=steps checkpoint.save_steps=10 checkpoint.save_final=false"],
    passes=[f"{TINY} checkpoint=steps checkpoint.save_steps=10 checkpoint.save_final=true"],
)
def always_final(d: Derived) -> Iterator[Problem]:
    """No final checkpoint is wanted, but some on the way."""
    c = d.config.checkpoint
    if not c.save_final and (c.save_steps is not None or c.save_minutes is not None):
        yield Problem(
            "checkpoint.save_final=false has no effect where checkpoints are saved on the way",
            ("checkpoint.save_final",),
            "checkpoint.save_final=true",
        )


@rule(
    "checkpoint.mcore_format",
    "error",
    "mindformers saves its mcore models as safetensors whatever is written",
    outcome="ignored",
    source="mindformers trainer/base_trainer.py training_process (run)",
    reads="checkpoint: format",
    fails=["+model=qwen3_tiny checkpoint.format=ckpt"],
    passes=["+model=qwen3_tiny checkpoint.format=safetensors"],
)
def mcore_format(d: Derived) -> Iterator[Problem]:
    """An mcore model is to be saved as ckpt."""
    if d.family.architecture == "mcore" and d.config.checkpoint.format == "ckpt":
        yield Problem(f"checkpoint.format=ckpt with {d.family.name}", ("checkpoint.format",), "checkpoint.format=safetensors")


@rule(
    "checkpoint.minutes",
    "error",
    "mindformers' safetensors checkpoints are written by steps only",
    outcome="ignored",
    source="mindformers trainer/utils.py check_checkpoint_config_by_read_file (the section `checkpoint`)",
    reads="checkpoint: format save_minutes",
    fails=["+model=qwen3_tiny checkpoint.save_minutes=3"],
    passes=["+model=qwen3_tiny checkpoint.save_minutes=null checkpoint.save_steps=500"],
)
def minutes(d: Derived) -> Iterator[Problem]:
    """Safetensors are to be saved by the clock."""
    c = d.config.checkpoint
    if c.format == "safetensors" and c.save_minutes is not None:
        yield Problem(
            f"checkpoint.save_minutes={c.save_minutes:g} with format=safetensors",
            ("checkpoint.save_minutes",),
            "checkpoint.save_minutes=null checkpoint.save_steps=500",
        )


@rule(
    "checkpoint.name",
    "error",
    "mindformers refuses checkpoint names with 'rank', MindSpore those with a '/', and reads epoch and step out of the rest",
    outcome="stops",
    source=(
        "mindformers trainer/trainer.py _build_callbacks, tools/utils.py get_epoch_and_step_from_ckpt_name (run: spaces, "
        "'-' and accents are found again)"
    ),
    reads="run: name",
    fails=[f"{TINY} run.name=my_rank_run", f"{TINY} run.name=a/b", f"{TINY} run.name=.hidden", f"{TINY} run.name=tiny-1_2.ckpt"],
    passes=[f"{TINY} run.name=my_r_run", f"{TINY} run.name=a_b", f"{TINY} run.name=hidden"],
)
def name(d: Derived) -> Iterator[Problem]:
    """The run's name can't be part of a checkpoint's file name, or would be read as its step or rank."""
    run_name = d.config.run.name or ""
    misread = _MISREAD.search(run_name) is not None or not run_name.isprintable()
    if misread or "rank" in run_name or "/" in run_name or run_name.startswith(".") or not run_name.strip():
        better = _MISREAD.sub(lambda found: found[0].replace("-", "_"), run_name.replace("rank", "r"))
        yield Problem(
            f"run.name={run_name!r} can't name files",
            ("run.name", "model.name"),
            "run.name=" + (re.sub(r"[^\w.-]+", "_", better).strip("._-") or "my_run"),
        )


@rule(
    "checkpoint.resume_and_load",
    "error",
    "resuming brings weights, optimizer and step; loading starts with weights only",
    outcome="differs",
    source="mindformers trainer/trainer.py Trainer.train",
    reads="checkpoint: load resume",
    fails=[f"{TINY} checkpoint.load=/x checkpoint.resume=must"],
    passes=[f"{TINY} checkpoint.resume=must checkpoint.load=null"],
)
def resume_and_load(d: Derived) -> Iterator[Problem]:
    """A run resumes and loads other weights."""
    c = d.config.checkpoint
    if c.load and c.resume not in ("never", "auto"):
        yield Problem(
            f"checkpoint.load={c.load} and checkpoint.resume={c.resume} together",
            ("checkpoint.load", "checkpoint.resume"),
            "checkpoint.load=null",
        )


@rule(
    "checkpoint.same_folder",
    "error",
    "the run would write into, and clean up, the folder that it reads: its source is gone where it fails",
    outcome="stops",
    source="torchtune issues 1762, 2927; LLaMA-Factory issue 4612",
    reads="checkpoint: load; run: dir",
    fails=[f"{TINY} checkpoint.load=a/checkpoint run.dir=a", f"{TINY} checkpoint.load=a run.dir=./a"],
    passes=[f"{TINY} checkpoint.load=a/checkpoint run.dir=b", f"{TINY} checkpoint.resume=must run.dir=a"],
)
def same_folder(d: Derived) -> Iterator[Problem]:
    """Weights are loaded from the run's own directory."""
    load, folder = d.config.checkpoint.load, d.config.run.dir
    if load is None or folder is None:
        return
    source, target = PurePath(os.path.normpath(load)), PurePath(os.path.normpath(folder))
    if source == target or target in source.parents:
        yield Problem(f"checkpoint.load={load} is in run.dir={folder}", ("checkpoint.load", "run.dir"), "run.dir=null")
