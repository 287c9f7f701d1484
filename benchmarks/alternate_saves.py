"""For save_cost.py: a callback that makes every other checkpoint of one run synchronous. Imported by the rank (run.imports)."""

from __future__ import annotations

from typing import Any

from mindformers.core.callback.callback import CheckpointMonitor
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore.train import Callback


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class AlternateSaves(Callback):
    """Of a run with checkpoint.async_save=true that saves every ``every`` steps: the second, fourth, ... save is in the background."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every

    def on_train_step_begin(self, run_context: Any) -> None:
        """mindformers' monitor asks its configuration anew at each save."""
        arguments = run_context.original_args()
        monitor = next(each for each in arguments.list_callback if isinstance(each, CheckpointMonitor))
        monitor._config._async_save = arguments.cur_step_num // self._every % 2 == 0
