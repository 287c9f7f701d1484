"""What kind of file this is, and the refusal by name of what is no training configuration of a language model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.lower.template import TRAIN_MODES

#: sections of the configuration that mindformers 2.0 has for its pynative trainer
_PYNATIVE = ("training", "training_args", "parallelism", "distribute_parallel_config", "train_dataloader", "dataloader", "checkpointing")
#: trainers of tasks that are not text (mindformers up to 1.5: trainer/)
_TASKS = {
    "ImageClassificationTrainer": "image classification",
    "MaskedImageModelingTrainer": "masked image modelling",
    "ContrastiveLanguageImagePretrainTrainer": "contrastive language-image pre-training",
    "ZeroShotImageClassificationTrainer": "zero-shot image classification",
    "ImageToTextRetrievalTrainer": "image-to-text retrieval",
    "ImageToTextGenerationTrainer": "image-to-text generation",
    "MultiModalToTextGenerationTrainer": "multi-modal generation",
}
_OTHER_MODEL = re.compile(
    r"(clip|swin|vit(?![a-z])|vitmae|mae|blip|filip|sam|visualglm|qwenvl|llava|cogvlm|internvl|mllama|whisper|diffusion|eva)", re.IGNORECASE
)
_NAMES = {"clip": "contrastive language-image models", "whisper": "speech recognition"}


def refuse_others(tree: dict[str, Any], path: Path) -> None:
    """UserError, with what was recognised, unless ``tree`` trains a language model."""
    native = sum(
        key in tree for key in ("trainer", "runner_config", "train_dataset", "optimizer", "lr_schedule", "model", "parallel_config")
    )
    pynative = [key for key in _PYNATIVE if isinstance(tree.get(key), dict | list)]
    if pynative and native <= 3 and "runner_config" not in tree:
        raise UserError(
            f"{path.name} is a configuration of mindformers 2.0's pynative trainer (sections {', '.join(pynative)}): "
            "1.9.0 can't run it, and it is not imported yet",
            where=str(path),
        )
    _refuse_task(tree, path)
    missing = [key for key in ("train_dataset", "optimizer", "lr_schedule") if key not in tree]
    mode = tree.get("run_mode")
    trains = isinstance(mode, str) and mode in TRAIN_MODES
    if "model" in tree and "train_dataset" not in tree and "optimizer" not in tree and not trains:
        kind = f"only fit for {mode}" if mode in ("predict", "eval", "export") else "no training configuration"
        what = f"{path.name} is {kind}: it has {_sections(tree)}, and no {', '.join(missing)}"
        raise UserError(what, where=str(path), mend="import the file the model was trained with")
    if isinstance(tree.get("model"), dict) and not isinstance(tree["model"].get("model_config"), dict):
        what = f"{path.name} has a model without model_config: mindformers has had it since 0.2, and reads nothing else"
        raise UserError(what, where=str(path))
    if not isinstance(tree.get("model"), dict):
        what = f"{path.name} is a part of a configuration ({_sections(tree)}), without a model"
        raise UserError(what, where=str(path), mend="import the file whose base_config names it")


def _refuse_task(tree: dict[str, Any], path: Path) -> None:
    trainer = tree.get("trainer")
    kind = trainer.get("type") if isinstance(trainer, dict) else None
    task = _TASKS.get(kind) if isinstance(kind, str) else None
    model = tree.get("model")
    config = model.get("model_config") if isinstance(model, dict) else None
    name = config.get("type") if isinstance(config, dict) else None
    if task is None and isinstance(name, str) and kind != "CausalLanguageModelingTrainer":
        match = _OTHER_MODEL.match(name)
        task = _NAMES.get(match[1].lower(), "images") if match else None
    if task is None and isinstance(name, str) and re.match(r"(qwenvl|llava|cogvlm|visualglm|internvl|mllama|whisper)", name, re.IGNORECASE):
        task = "multi-modal generation"
    if task is not None:
        what = f"{path.name} is a configuration for {task} ({name or kind}): mindrecipe trains language models"
        raise UserError(what, where=str(path))


def _sections(tree: dict[str, Any]) -> str:
    names = [key for key, value in tree.items() if isinstance(value, dict | list)] or list(tree)
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
