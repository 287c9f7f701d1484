"""Whether a checkpoint fits the run that is to go on from it: format, parameters, and the run that it was made by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.checkpoints.contents import read_entries
from mindrecipe.checkpoints.find import Checkpoint, parameters
from mindrecipe.derive import Derived
from mindrecipe.errors import UserError
from mindrecipe.lower.checkpoint import in_section
from mindrecipe.measure.record import read_steps
from mindrecipe.runfiles import CONFIG, LOCK, RunFiles

_MODEL_KEYS = (
    "family",
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "tie_word_embeddings",
)


def check_layout(derived: Derived, checkpoint: Checkpoint) -> None:
    """The file format, and for safetensors the folders, must be those that the lowered configuration reads."""
    given = derived.config.checkpoint
    if checkpoint.format != given.format:
        raise UserError(
            f"the checkpoint is {checkpoint.format}, and checkpoint.format is {given.format}", mend=f"checkpoint.format={checkpoint.format}"
        )
    by_iteration = checkpoint.file_name is None
    if given.format == "safetensors" and by_iteration != in_section(derived):
        has, wants = ("iteration_<step>/", "rank_<n>/") if by_iteration else ("rank_<n>/", "iteration_<step>/")
        raise UserError(
            f"the checkpoint lies in {has}, and parallel.mode={derived.config.parallel.mode} reads {wants}: mindformers can't change over",
            mend="the parallel mode it was saved with",
        )


def check_parameters(derived: Derived, checkpoint: Checkpoint, key: str) -> None:
    """One replica's file holds the whole model (on one device and in data parallel): the counts must be equal."""
    if derived.config.parallel.mode not in ("standalone", "data_parallel") or not derived.config.checkpoint.strict:
        return
    held = parameters(checkpoint)
    count = sum(entry.size for entry in held)
    if count != derived.parameters:
        raise UserError(
            f"{key}: the checkpoint holds {count:,} parameters in {len(held)} tensors, the model has {derived.parameters:,}",
            mend="the model it was made with; checkpoint.strict=false takes what fits",
        )


def check_ranks(derived: Derived, checkpoint: Checkpoint) -> None:
    """Each rank loads the file of its own number; in data parallel the worker finds it another with checkpoint.strict=false (load.py)."""
    ranks, given = len(checkpoint.files), derived.config
    if checkpoint.file_name is None or ranks >= derived.device_num or not given.checkpoint.strict:
        return
    replicated = given.parallel.mode == "data_parallel"
    mends = [f"launch.workers={ranks}"] if given.launch.nodes == 1 else ["run.dir=<a folder that all hosts share>, with all ranks' files"]
    raise UserError(
        f"the checkpoint was saved by {ranks} ranks, and {derived.device_num} are to go on from it",
        mend="; ".join([*mends, *(["checkpoint.strict=false takes it for all"] if replicated else [])]),
    )


def check_batch(derived: Derived, checkpoint: Checkpoint) -> None:
    """A checkpoint that was copied away from its run still tells its global batch and its ranks: the same, or a stop in words."""
    if _run_of(checkpoint.folder) is not None or not derived.config.checkpoint.strict:
        return
    saved = facts(checkpoint).get("global_batch_size")
    differences = [f"global batch {saved:.0f} -> {derived.global_batch_size}"] if saved and saved != derived.global_batch_size else []
    if checkpoint.ranks != derived.device_num:
        differences.append(f"ranks {checkpoint.ranks} -> {derived.device_num}")
    if differences:
        raise UserError(
            f"the run that saved {checkpoint.path} was another one: {'; '.join(differences)}",
            mend="the same settings as there; checkpoint.strict=false to resume all the same",
        )


def first_step(derived: Derived, checkpoint: Checkpoint) -> int:
    """The global step that training goes on from: the checkpoint's, or where its data are at with another batch size.

    mindformers counts steps anew by the ratio of the global batches (trainer/utils.py load_resume_context_from_checkpoint), rounding down:
    rows of a batch that was cut are read again.
    """
    saved = facts(checkpoint).get("global_batch_size")
    return checkpoint.step if not saved else int(checkpoint.step * (saved / derived.global_batch_size))


def story(derived: Derived, checkpoint: Checkpoint, step: int) -> Iterator[str]:
    """What is resumed, in words: epoch and place in the data, learning rate of the last step, loss scale."""
    if step != checkpoint.step:
        yield f"counted as step {step}, since the global batch is another one"
    per_epoch = derived.steps_per_epoch
    run = _run_of(checkpoint.folder)
    if per_epoch:
        yield f"epoch {step // per_epoch + 1}, {step % per_epoch} of its {per_epoch} batches read"
    if per_epoch and run is not None and step != checkpoint.step:
        yield from _moved(derived, run, checkpoint.step, (step // per_epoch + 1, step % per_epoch * derived.global_batch_size))
    rate = next((record.lr for record in read_steps(RunFiles(path=run).metrics) if record.step == checkpoint.step), None) if run else None
    if rate is not None:
        yield f"lr {rate:.4g}"
    scale = facts(checkpoint).get("loss_scale")
    if scale is not None and derived.loss_scale.kind != "none":
        yield f"loss scale {scale:g}"


def _moved(derived: Derived, run: Path, step: int, now: tuple[int, int]) -> Iterator[str]:
    """Where step ``step`` of ``run`` was at another row of these data (epoch, rows read in it) than the run that goes on from it is."""
    try:
        lock = json.loads((run / LOCK).read_text(encoding="utf-8"))
        per_epoch, batch, data = lock["derived"]["steps_per_epoch"], lock["derived"]["global_batch_size"], lock["dataset_hash"]
    except (ValueError, KeyError, TypeError):  # a damaged one: checkpoint.strict=false goes on all the same
        return
    if not per_epoch or derived.dataset is None or data != derived.dataset.fingerprint:
        return
    before = (step // per_epoch + 1, step % per_epoch * batch)
    if before != now:
        yield f"row {now[1]} of epoch {now[0]}, where the checkpoint was at row {before[1]} of epoch {before[0]}: batches end elsewhere"


def facts(checkpoint: Checkpoint) -> dict[str, float]:
    """The numbers in it that are no weights: of the .ckpt itself, or of common.json beside the safetensors."""
    if checkpoint.file_name is None:
        raw = json.loads((checkpoint.folder / "common.json").read_text(encoding="utf-8"))
        return {name: float(value) for name, value in raw.items() if isinstance(value, int | float)}
    return {entry.name: entry.value for entry in read_entries(checkpoint.files[0]) if entry.value is not None}


def _run_of(path: Path) -> Path | None:
    return next((folder for folder in (path, *path.parents[:4]) if (folder / LOCK).exists() and (folder / CONFIG).exists()), None)


def check_same_run(derived: Derived, path: Path) -> None:
    """Where the checkpoint lies in a run directory of ours: the same model, batch, ranks and data, or a stop in words."""
    run = _run_of(path)
    if run is None or not derived.config.checkpoint.strict:
        return
    try:
        lock: dict[str, Any] = json.loads((run / LOCK).read_text(encoding="utf-8"))
        config: dict[str, Any] = yaml.safe_load((run / CONFIG).read_text(encoding="utf-8"))
        earlier, batch, data = config["model"], lock["derived"]["global_batch_size"], lock["dataset_hash"]
        ranks = lock["derived"]["device_num"]
    except (ValueError, KeyError, TypeError, yaml.YAMLError) as fault:
        raise UserError(
            f"{run} is a run directory whose {LOCK} or {CONFIG} can't be read: {fault}",
            mend=f"its checkpoints alone: checkpoint.resume={run / 'checkpoint'} checkpoint.strict=false",
        ) from fault
    model = derived.config.model
    differences = [
        f"model.{key} {earlier.get(key)} -> {getattr(model, key)}" for key in _MODEL_KEYS if earlier.get(key) != getattr(model, key)
    ]
    if batch != derived.global_batch_size:
        differences.append(f"global batch {batch} -> {derived.global_batch_size}")
    if ranks != derived.device_num:
        differences.append(f"ranks {ranks} -> {derived.device_num}")
    if derived.dataset is not None and data != derived.dataset.fingerprint:
        differences.append(f"data set {data} -> {derived.dataset.fingerprint}")
    if differences:
        raise UserError(
            f"the run in {run} was another one: {'; '.join(differences)}",
            mend="the same settings as there; checkpoint.strict=false to resume all the same",
        )
