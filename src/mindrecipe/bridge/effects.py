"""What mindformers will silently do with a configuration, with the figures that will really run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mindrecipe.bridge.nodes import Lines
from mindrecipe.bridge.notes import Note
from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED


def effects(tree: dict[str, Any], derived: Derived, lines: Lines) -> Iterator[Note]:
    """Notes of everything that will run differently from what is written."""
    for key, text, mend in [*_batch(tree, derived), *_schedule(tree, derived), *_state(tree, derived)]:
        yield Note(kind="effect", key=key, text=text, mend=mend, line=lines.get(tuple(key.split("."))))


_Effect = tuple[str, str, str | None]


def _batch(tree: dict[str, Any], derived: Derived) -> Iterator[_Effect]:
    parallel, mesh = derived.config.parallel, _section(tree, "parallel_config")
    sharded, batch = parallel.mode in SHARDED, derived.global_batch_size
    stages, micro = mesh.get("pipeline_stage", 1), mesh.get("micro_batch_num", 1)
    if sharded and stages == 1 and _above(micro, 1):
        text = f"micro_batch_num={micro} is reset to 1 with one stage: the global batch is {batch}, not {batch * micro}"
        yield "parallel_config.micro_batch_num", text, "runner_config.gradient_accumulation_steps"
    if sharded and _above(stages, 1) and mesh.get("vocab_emb_dp", True):
        yield "parallel_config.vocab_emb_dp", f"it is reset to false with {stages} stages: the embedding is split over model_parallel", None
    accumulate = _section(tree, "runner_config").get("gradient_accumulation_steps", 1)
    if _above(accumulate, 1) and (not sharded or _above(stages, 1)):
        because = f"with {stages} stages" if sharded else f"outside semi_auto and auto parallel (here {parallel.mode})"
        text = f"it is reset from {accumulate} to 1 {because}: the global batch is {batch}, not {batch * accumulate}"
        yield "runner_config.gradient_accumulation_steps", text, "parallel_config.micro_batch_num" if sharded else None
    axes = ("model_parallel", "context_parallel", "pipeline_stage", "micro_batch_num", "data_parallel")
    ignored = [f"{axis}={mesh[axis]}" for axis in axes if _above(mesh.get(axis), 1)]
    if not sharded and ignored:
        text = f"{', '.join(ignored)} {'is' if len(ignored) == 1 else 'are'} reset to 1: every device trains the whole model"
        yield "parallel_config", text, "parallel=semi_auto"
    written, real = _section(tree, "train_dataset").get("batch_size"), derived.config.dataset.batch_size
    if isinstance(written, int) and written != real:
        text = f"runner_config.batch_size={real} overwrites {written}: the global batch is {batch}"
        yield "train_dataset.batch_size", text, None
    given = _section(tree, "parallel")
    if parallel.mode == "data_parallel" and not given.get("gradients_mean", False):
        yield "parallel.gradients_mean", "false sums the gradients of all replicas: the step is as many times larger", "true"
    if sharded and given.get("full_batch", True) and isinstance(given.get("dataset_strategy"), list):
        yield "parallel.dataset_strategy", "with full_batch: true it is reset to 'full_batch'", None


def _schedule(tree: dict[str, Any], derived: Derived) -> Iterator[_Effect]:
    runner = _section(tree, "runner_config")
    size, epochs, sinks = runner.get("sink_size", 1), runner.get("epochs", 1), runner.get("sink_mode", True)
    if sinks and _above(size, 1) and isinstance(epochs, int):
        known = _known_steps(tree, derived)
        if known is None:
            lost = "a last step" if size == 2 else f"up to {size - 1} last steps"
            text = f"int(steps / {size} * {epochs}) rounds of {size} steps run: {lost} may not be trained"
        else:
            real = int(known / size * epochs) * size
            text = f"of {known} steps an epoch and {epochs} epochs, {real} steps run" + (
                f": {known * epochs - real} are lost" if real < known * epochs else ", none is lost"
            )
        yield "runner_config.sink_size", text, "1"
    if sinks and derived.hardware.target == "CPU":
        yield "runner_config.sink_mode", "on CPU the epochs are multiplied by the steps of one, and all are run", "false"
    if runner.get("stop_step"):
        yield (
            "runner_config.stop_step",
            f"the run does not stop at {runner['stop_step']}: only a TrainCallBack ends it",
            "schedule.total_steps",
        )


def _state(tree: dict[str, Any], derived: Derived) -> Iterator[_Effect]:
    if tree.get("resume_training") and not tree.get("load_checkpoint") and not _section(tree, "checkpoint").get("load_path"):
        yield "resume_training", "without load_checkpoint it trains from scratch, with one warning in the log", "load_checkpoint"
    if _section(_section(tree, "model"), "model_config").get("use_past") is True:
        yield "model.model_config.use_past", "training needs false: mindformers sets it or refuses the network", "false"
    if derived.family.architecture == "mcore" and any(
        isinstance(item, dict) and item.get("checkpoint_format") == "ckpt" for item in tree.get("callbacks") or []
    ):
        yield "callbacks", "checkpoint_format ckpt becomes safetensors with use_legacy: false", None


def _known_steps(tree: dict[str, Any], derived: Derived) -> int | None:
    """Steps of an epoch, where the loader says how many samples there are (BlendedMegatronDatasetDataLoader.sizes)."""
    sizes: Any = _section(_section(tree, "train_dataset"), "data_loader").get("sizes")
    if not isinstance(sizes, list) or not sizes or not _above(sizes[0], 0):
        return None
    count: int = sizes[0]
    batch = derived.global_batch_size
    return count // batch if derived.config.dataset.drop_remainder else math.ceil(count / batch)


def _above(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > least


def _section(tree: Any, key: str) -> dict[str, Any]:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, dict) else {}
