"""What stock mindformers says to native YAMLs, up to the built and wrapped network: a process of its own, for test_soundness.py.

    python stock_judge.py jobs.json answers.json

Each job is {"path": a YAML, "devices": ranks}. Carried out in the order of a real run: the template, the validators and the
parallel context, the trainer's checks of the batch, tools/check_rules.py, the network (nothing is initialised), its wrapping, the schedule.
An answer is {"stage": null, "global_batch": ...} or {"stage": where it stopped, "error": "Type: text"}.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any


class Stopped(Exception):
    """mindformers refused at ``stage``."""

    def __init__(self, stage: str, fault: BaseException) -> None:
        super().__init__(f"{type(fault).__name__}: {fault}")
        self.stage = stage


def judge(path: str, devices: int) -> dict[str, Any]:  # noqa: PLR0915 - one step after another
    """Take one YAML through everything that needs no device."""
    import mindspore as ms
    from mindformers import MindFormerConfig
    from mindformers.core.context.build_context import MFContextOperator, build_mf_context
    from mindformers.core.context.validators import execute_validator
    from mindformers.core.lr import build_lr
    from mindformers.core.parallel_config import build_parallel_config
    from mindformers.models.build_model import build_network
    from mindformers.tools.check_rules import check_rules
    from mindformers.tools.utils import PARALLEL_MODE
    from mindformers.trainer.base_trainer import BaseTrainer
    from mindspore.nn.utils import no_init_parameters

    os.environ["RANK_SIZE"] = str(devices)
    state: dict[str, Any] = {}

    def template() -> None:
        state["config"] = MindFormerConfig(path)

    def validators() -> None:
        execute_validator(copy.deepcopy(state["config"]))  # it replaces values by their own

    def context() -> None:
        config = state["config"]
        ms.reset_auto_parallel_context()
        MFContextOperator.reset_instance()
        build_mf_context(config)
        if config.use_parallel:
            given = {key: value for key, value in config.parallel.items() if key not in ("dataset_strategy", "strategy_ckpt_config")}
            if not config.parallel.full_batch and isinstance(config.parallel.dataset_strategy, list):
                given["dataset_strategy"] = tuple(tuple(row) for row in config.parallel.dataset_strategy)
            given["parallel_mode"] = PARALLEL_MODE[given["parallel_mode"]]
            given["pipeline_stages"] = config.parallel_config.pipeline_stage
            ms.set_auto_parallel_context(device_num=devices, global_rank=0, **given)
        build_parallel_config(config)

    def trainer() -> None:
        made = object.__new__(BaseTrainer)
        made.config = state["config"]
        made._check_grad_accumulation_steps()
        made._check_global_batch_size_for_auto_parallel()
        state["trainer"] = made

    def rules() -> None:
        check_rules(state["config"], mode="train", dataset=object())

    def network() -> None:
        config = state["config"]
        shared = {"parallel_config": config.parallel_config, "moe_config": config.moe_config, "dataset_config": config.train_dataset}
        with no_init_parameters():
            state["network"] = build_network(config.model, default_args=shared)

    def wrapping() -> None:
        state["trainer"].wrap_network_with_tool_cells(state["network"])

    def schedule() -> None:
        build_lr(state["config"].lr_schedule)

    for step in (template, validators, context, trainer, rules, network, wrapping, schedule):
        try:
            step()
        except Exception as fault:
            raise Stopped(step.__name__, fault) from fault
    config = state["config"]
    return {
        "stage": None,
        "global_batch": int(config.runner_config.global_batch_size),
        "micro_batch_num": int(config.parallel_config.micro_batch_num),
        "accumulation": int(config.runner_config.gradient_accumulation_steps),
    }


def _stand_for_the_others() -> None:
    """Answer for the ranks that are not here: this is rank 0 of so many, and groups are made without them."""
    from mindspore import communication
    from mindspore.communication import management

    for module in (communication, management):
        module.get_rank = lambda *_, **__: 0
        module.get_group_size = lambda *_, **__: int(os.environ.get("RANK_SIZE", "1"))
        module.create_group = lambda *_, **__: None


def main(jobs: Path, answers: Path) -> None:
    os.environ["LOCAL_DEFAULT_PATH"] = str(answers.parent)
    os.chdir(answers.parent)
    _stand_for_the_others()  # before mindformers takes these functions
    from mindformers import build_context
    from mindformers.parallel_core.inference import parallel_state
    from mindformers.tools.logger import logger

    parallel_state._is_initialized = lambda: True
    build_context({"context": {"mode": 0, "device_target": "CPU"}, "parallel": {}})
    for level in ("info", "warning", "error"):
        setattr(logger, level, staticmethod(lambda *_, **__: None))
    with open(answers, "w", encoding="utf-8") as file:
        for job in json.loads(jobs.read_text(encoding="utf-8")):
            try:
                answer = judge(**job)
            except Stopped as stopped:
                answer = {"stage": stopped.stage, "error": str(stopped)[:400]}
            file.write(json.dumps(answer) + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
