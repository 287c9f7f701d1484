"""A rank of a simulation: the same run directory and the same Trainer, on MindSpore's dry run of an Ascend device.

The launcher has set MS_SIMULATION_LEVEL and put a stand-in for CANN in place (mindrecipe/simulate): MindSpore compiles this rank's part of
the sharded graph and walks through one step of it without computing. What differs from a real rank is all in shortcuts.py and
rows.py.
"""

from __future__ import annotations

import time
from typing import Any

from mindrecipe.measure import holdings
from mindrecipe.worker.environment import Place
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.rundir import RunDir


def simulate(run: RunDir, native: Any, place: Place, journal: Journal) -> None:
    """Compile and walk through one step, and write what this rank holds to ``simulation/rank_N.holdings.json``."""
    from mindformers.core.callback.callback import CheckpointMonitor
    from mindformers.trainer.trainer import Trainer

    from mindrecipe.worker.simulated import rows, shortcuts
    from mindrecipe.worker.simulated.inventory import Inventory

    shortcuts.take(native)
    trainer = Trainer(args=native, task="text_generation")
    task = trainer.trainer
    shortcuts.straighten(task)
    task.create_train_dataset = lambda *_, **__: rows.one_step(task)
    in_mindformers_order = task.sort_callbacks
    inventory = Inventory(place.rank, journal)

    def sort_callbacks(callbacks: list[Any]) -> list[Any]:
        return [*(each for each in in_mindformers_order(callbacks) if not isinstance(each, CheckpointMonitor)), inventory]

    task.sort_callbacks = sort_callbacks
    began = time.monotonic()
    trainer.train()
    holdings.write(inventory.taken, run.simulation(place.rank))
    journal.phase("done", step=1, seconds=time.monotonic() - began)
