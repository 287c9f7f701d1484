"""What stock mindformers makes of native YAMLs: run in a process of its own, reads jobs as JSON, prints answers as JSON.

    python probe.py jobs.json answers.json

Each job is {"what": one of the functions below, "path": a YAML, ...}; an answer is its return value, or {"error": "Type: text"}.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

SAID: list[tuple[str, str]] = []


def _load(path: str) -> Any:
    from mindformers import MindFormerConfig

    return MindFormerConfig(path)


def load(path: str) -> Any:
    """MindFormerConfig(path): its sections, and what mindformers warned of."""
    SAID.clear()
    config = _load(path)
    return {
        "said": [text for level, text in SAID if level in ("warning", "error")],
        "context": dict(config.context),
        "parallel": dict(config.parallel),
        "parallel_config": dict(config.parallel_config),
        "recompute_config": dict(config.recompute_config),
        "optimizer": dict(config.optimizer),
    }


def lr(path: str, steps: list[int]) -> list[float]:
    """The learning rate at each of ``steps``, from mindformers' schedule, whatever step is asked for first: that of a resumed run is."""
    import mindspore as ms
    from mindformers.core.lr import build_lr

    def rates(asked: list[int]) -> list[float]:
        schedule = build_lr(_load(path).lr_schedule)
        return [float(schedule(ms.Tensor(step, ms.int32)).asnumpy()) for step in asked]

    found, backwards = rates(steps), rates(steps[::-1])[::-1]
    if not (found == backwards or any(math.isnan(rate) for rate in found)):
        raise AssertionError(f"it remembers what it was asked before: {found}, from the last step backwards {backwards}")
    return found


def _network(path: str) -> tuple[Any, Any]:
    """The network of a YAML, and its config, as mindformers' trainer makes them; no parameter is initialised: large ones take no memory."""
    from mindformers.core.context.build_context import MFContextOperator, build_mf_context
    from mindformers.core.parallel_config import build_parallel_config
    from mindformers.models.build_model import build_network
    from mindspore.nn.utils import no_init_parameters

    config = _load(path)
    MFContextOperator.reset_instance()  # legacy or mcore, as this YAML says
    build_mf_context(config)
    build_parallel_config(config)
    shared = {"parallel_config": config.parallel_config, "moe_config": config.moe_config, "dataset_config": config.train_dataset}
    with no_init_parameters():
        return build_network(config.model, default_args=shared), config


def build(path: str) -> Any:
    """Parameters of the network, by name; nothing is initialised, so that large ones take no memory."""
    SAID.clear()
    network, _ = _network(path)
    sizes = {param.name: int(param.size) for param in network.trainable_params()}
    return {
        "class": type(network).__name__,
        "parameters": sum(sizes.values()),
        "tensors": len(sizes),
        "said": [text for level, text in SAID if level != "info"],
    }


def recompute(path: str) -> list[str]:
    """What mindformers says it recomputes, a line a layer."""
    SAID.clear()
    _network(path)
    return [text for _, text in SAID if text.startswith(("Set select", "Set full"))]


def stages(path: str) -> Any:
    """Layers of each stage as mindformers lays them."""
    SAID.clear()
    _network(path)
    return [text for _, text in SAID if text.startswith("num_layers per stage")]


def optimizer(path: str) -> str:
    """The class of the optimizer, built over a small network in mindformers' parameter groups."""
    from mindformers.core.lr import build_lr
    from mindformers.core.optim import build_optim
    from mindformers.trainer.optimizer_grouped_parameters import get_optimizer_grouped_parameters

    network, config = _network(path)
    schedule = build_lr(config.lr_schedule)
    groups = get_optimizer_grouped_parameters(
        model=network,
        weight_decay=config.optimizer.weight_decay,
        dynamic_lr_schedule=schedule,
        grouped_lr_schedule=None,
        model_params=network.get_model_parameters(),
        optimizer_type=config.optimizer.type,
        layer_scale=False,
        layer_decay=0.65,
    )
    arguments = {"params": groups, "learning_rate": schedule}
    if config.optimizer.type == "Muon":
        arguments["model"] = network
    return type(build_optim(config.optimizer, default_args=arguments)).__name__


def wrapper(path: str) -> Any:
    """The train step's cell and its loss scale."""
    import mindspore as ms
    from mindformers.core.context.build_context import MFContextOperator, build_mf_context
    from mindformers.wrapper import build_wrapper
    from mindspore import nn

    config = _load(path)
    MFContextOperator.reset_instance()
    build_mf_context(config)
    cell = nn.Dense(2, 1)
    made = build_wrapper(
        config.runner_wrapper,
        default_args={"network": nn.WithLossCell(cell, nn.MSELoss()), "optimizer": nn.SGD(cell.trainable_params(), 0.1)},
    )
    manager = made.loss_scaling_manager
    return {
        "class": type(made).__name__,
        "clips": bool(made.use_clip_grad),
        "scale": float(ms.Tensor(made.scale_sense).asnumpy()),
        "manager": type(manager).__name__ if manager is not None else None,
        "window": int(manager.scale_window) if manager is not None and hasattr(manager, "scale_window") else None,
    }


def callbacks(path: str) -> list[str]:
    """The callbacks of a YAML, built with what the trainer adds to them."""
    from mindformers.core.callback import build_callback

    config = _load(path)
    extra = {
        "MFLossMonitor": {"origin_epochs": 1, "dataset_size": 10, "global_batch_size": 1, "initial_epoch": 0, "initial_step": 0},
        "CheckpointMonitor": {"append_info": [{"epoch_num": 0}], "global_batch_size": 1, "use_legacy_format": "checkpoint" not in config},
    }
    return [type(build_callback(callback, default_args=extra.get(callback["type"], {}))).__name__ for callback in config.callbacks]


def parallel(path: str) -> list[str]:
    """The keys of `parallel` that set_auto_parallel_context took; an unknown one is a ValueError."""
    import mindspore as ms
    from mindformers.core.context.parallel import ParallelOperator  # noqa: F401

    given = dict(_load(path).parallel)
    given.pop("parallel_mode")
    given["strategy_ckpt_config"] = dict(given.get("strategy_ckpt_config") or {})
    if "dataset_strategy" in given:
        given["dataset_strategy"] = tuple(tuple(row) for row in given["dataset_strategy"])
    try:
        ms.reset_auto_parallel_context()
        ms.set_auto_parallel_context(device_num=16, parallel_mode="semi_auto_parallel", **given)
        return sorted(given)
    finally:
        ms.reset_auto_parallel_context()


def shared(path: str, ranks: int, variables: dict[str, str]) -> bool:
    """Whether ranks with these variables may save into the folder of the section `checkpoint`: else the first save raises."""
    from unittest import mock

    from mindformers.utils.file_utils import is_publicly_accessible_path

    with mock.patch.dict(os.environ, {"RANK_SIZE": str(ranks), **variables}):
        return bool(is_publicly_accessible_path(str(_load(path).checkpoint.save_path)))


def main(jobs: Path, answers: Path) -> None:
    os.environ["LOCAL_DEFAULT_PATH"] = str(answers.parent)
    os.chdir(answers.parent)
    import mindspore as ms
    from mindformers import build_context
    from mindformers.tools.logger import logger

    build_context({"context": {"mode": 0, "device_target": "CPU"}, "parallel": {}})

    for level in ("info", "warning", "error"):
        setattr(logger, level, staticmethod(lambda text, *rest, level=level, **_: SAID.append((level, text % rest if rest else str(text)))))
    found = []
    for job in json.loads(jobs.read_text(encoding="utf-8")):
        arguments = dict(job)
        what = globals()[arguments.pop("what")]
        ms.set_context(mode=ms.PYNATIVE_MODE if what is lr else ms.GRAPH_MODE)
        try:
            found.append(what(**arguments))
        except Exception as fault:
            found.append({"error": f"{type(fault).__name__}: {fault}"})
    answers.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
