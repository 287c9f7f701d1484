"""Keys that mindformers 1.9.0 never reads in training, each with why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindrecipe.bridge.mends import leaves
from mindrecipe.bridge.nodes import Lines
from mindrecipe.bridge.notes import Note
from mindrecipe.lower.known import CONTEXT, GENERATION, LLAMA

_EVALUATION = ("eval_dataset", "eval_dataset_task", "eval_callbacks", "eval_step_interval", "eval_epoch_interval", "metric")
_TOP = {
    "profile_level": "training reads profiler_level (trainer.py:1143)",
    "processor": "only prediction reads it",
    "remote_save_url": "uploading to a cloud has left with ObsMonitor",
    "layer_decay": "layer_scale is refused, so nothing is scaled",
    "input_data": "only prediction reads it",
    "predict_batch_size": "only prediction reads it",
    "save_file": "only prediction reads it",
    "infer": "only inference of old versions read it",
}


def dead(tree: dict[str, Any], lines: Lines) -> Iterator[Note]:
    """Notes of every dead key of ``tree``."""
    for path, why in _dead(tree):
        yield Note(kind="dead", key=".".join(map(str, path)), text=why, line=lines.get(path))


def _dead(tree: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    for key, why in _TOP.items():
        if key in tree:
            yield (key,), why
    for key in _section(tree, "context"):
        if key not in CONTEXT:
            yield ("context", key), "mindformers forwards it no more: 'did not take effect' (build_context.py:499)"
    for key, why in (
        ("stop_step", "a dictionary is built and dropped (base_trainer.py:1344)"),
        ("num_classes", "only image tasks read it"),
    ):
        if key in _section(tree, "runner_config"):
            yield ("runner_config", key), why
    yield from _dead_elsewhere(tree)
    yield from _dead_model(tree)


def _dead_elsewhere(tree: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Keys that are read only together with another, or that another overwrites."""
    evaluates = tree.get("do_eval", False)
    for key in () if evaluates else _EVALUATION:
        if key in tree:
            yield (key,), "only read with do_eval: true"
    for path, condition, why in (
        (("parallel",), not tree.get("use_parallel", False), "without use_parallel the section is not read"),
        (("train_dataset", "batch_size"), True, "runner_config.batch_size overwrites it (dataset/utils.py:29)"),
        (("train_dataset_task", "dataset_config"), True, "train_dataset is put in its place (dataset/utils.py:38)"),
        (("optimizer", "learning_rate"), bool(tree.get("lr_schedule")), "lr_schedule says the rate (base_trainer.py:671)"),
        (("moe_config",), tree.get("use_legacy", True) is False, "mcore models have their experts in model_config"),
        (("lr_scale_factor",), not tree.get("lr_scale", False), "only read with lr_scale: true"),
    ):
        if condition and (path[-1] in (_section(tree, path[0]) if len(path) > 1 else tree)):
            yield path, why


def _dead_model(tree: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    config = _section(_section(tree, "model"), "model_config")
    if config.get("type") == "LlamaConfig" and _section(_section(tree, "model"), "arch").get("type") == "LlamaForCausalLM":
        for key in config:
            if key in GENERATION:
                yield ("model", "model_config", key), "only generation reads it"
            elif key not in LLAMA:
                yield ("model", "model_config", key), "LlamaConfig has no such argument and swallows it"
    else:
        for (*_, key), _ in leaves(config):
            if key in GENERATION and key in config:
                yield ("model", "model_config", key), "only generation reads it"


def _section(tree: Any, key: str) -> dict[str, Any]:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, dict) else {}
