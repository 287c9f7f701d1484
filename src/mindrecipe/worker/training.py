"""Train: mindformers' Trainer does, on the config as it was frozen, with our two callbacks round its own.

The hooks are attributes of the one trainer object, not patches of its class: the order of callbacks and the seed of the data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.errors import UserError
from mindrecipe.measure.history import steps_before
from mindrecipe.worker import seeds
from mindrecipe.worker.board import board_of
from mindrecipe.worker.environment import Place, threads_per_worker
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.rundir import RunDir
from mindrecipe.worker.stopping import StopRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What training leaves behind: the step cell with the trained ``network`` inside, the last global ``step``, and whether it was
    ``stopped`` there before the run's end.
    """

    network: Any
    step: int
    stopped: bool


def start_runtime(run: RunDir, native: Any) -> None:
    """Set mindspore's device, mode, memory, threads and, with several ranks, its communication, from ``native``."""
    import mindspore as ms
    from mindformers import build_context

    threads = threads_per_worker(run)
    if threads is not None:
        ms.device_context.cpu.op_tuning.threads_num(threads)
    build_context(native)


def train(run: RunDir, native: Any, place: Place, journal: Journal) -> Trained:
    """Train to the end that ``native`` sets. Raises what mindformers raises, and Diverged (see verdict.py)."""
    from mindformers.trainer.trainer import Trainer

    trainer = Trainer(args=native, task="text_generation")
    task = trainer.trainer
    data_seed = run.derived.get("data_seed")
    if data_seed is not None and data_seed != native.seed:
        seeds.order_rows_by(task, int(data_seed))
    stop = StopRequest()
    ends = _put_callbacks_round(task, run, place, journal, stop)
    board = board_of(run, place)
    journal.also = None if board is None else board.step
    try:
        trainer.train()
    finally:
        if board is not None:
            board.close()
    last = ends[0]
    stopped = stop.agreed and last.step != run.derived.get("total_steps")
    if not stopped:
        stop.disarm()
    return Trained(network=last.network, step=last.step, stopped=stopped)


def _put_callbacks_round(task: Any, run: RunDir, place: Place, journal: Journal, stop: StopRequest) -> list[Any]:
    """Ours first and last, whatever mindformers' own order is. They are made when it asks: only then is the run's start known."""
    from mindformers.core.callback.callback import CheckpointMonitor

    from mindrecipe.worker.callback import Lap, StepEnd, StepStart
    from mindrecipe.worker.gauges import Gauges
    from mindrecipe.worker.keeper import Keeper
    from mindrecipe.worker.loss import Agreement, LossShape
    from mindrecipe.worker.memory import gauge
    from mindrecipe.worker.scale import Scale
    from mindrecipe.worker.verdict import Verdict
    from mindrecipe.worker.watch import Watch

    in_mindformers_order = task.sort_callbacks
    ends: list[StepEnd] = []

    def sort_callbacks(callbacks: list[Any]) -> list[Any]:
        config = task.config
        first = int(config.runner_config.initial_step or 0)
        if first != run.resumed_step:
            raise UserError(
                f"the checkpoint resumes at step {first}, but the run was frozen to resume at step {run.resumed_step}: "
                "its global batch differs from this run's",
                mend="resume with the batch size and devices of the checkpoint, or start from its weights: checkpoint.load=PATH",
            )
        sorted_callbacks = in_mindformers_order(callbacks)
        start = StepStart(stop, final_checkpoint=bool(run.config["checkpoint"]["save_final"]))
        start.monitor = next((callback for callback in sorted_callbacks if isinstance(callback, CheckpointMonitor)), None)
        watching = run.config["watch"]
        keep = int(run.config["checkpoint"]["keep"])
        borne = watching["overflow_steps"] if watching["loss_spike"] == "skip" else 0
        keeper = None
        if start.monitor is not None:
            keeper = Keeper(start.monitor, run.checkpoints, keep, first, place, journal, borne=borne)
        end = StepEnd(
            start,
            journal,
            Scale.of(run.derived, first),
            Agreement(LossShape.of(config, place.world), place.rank),
            Verdict(
                dynamic=_scales_dynamically(config), most_skipped=watching["overflow_steps"], skip=watching["loss_nonfinite"] == "skip"
            ),
            Watch(watching, steps_before(run.path)) if place.rank == 0 else None,
            Gauges(
                memory=gauge(config.context.device_target, on=bool(run.config["monitor"]["memory"])),
                update_ratio_steps=run.config["monitor"]["update_ratio_steps"],
            ),
            stop,
            keeper,
            _profiled(run),
        )
        ends.append(end)
        if start.monitor is not None:
            before = Lap()
            end.saving = Lap(before)
            place_of = sorted_callbacks.index(start.monitor)
            sorted_callbacks[place_of : place_of + 1] = [before, start.monitor, end.saving]
        return [start, *sorted_callbacks, end]

    task.sort_callbacks = sort_callbacks
    return ends


def _profiled(run: RunDir) -> range:
    """The steps whose times the profiler is in: its window, and a step on either side, since it begins and ends between steps."""
    profile = run.config["profile"]
    return range(profile["start"] - 1, profile["stop"] + 2) if profile["enabled"] else range(0)


def _scales_dynamically(config: Any) -> bool:
    scale = config.runner_wrapper.scale_sense
    kind = scale.get("type", "") if isinstance(scale, dict) else type(scale).__name__
    return str(kind).startswith(("Dynamic", "Adaptive"))
