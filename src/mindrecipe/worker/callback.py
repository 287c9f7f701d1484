"""The callbacks that measure training: one runs before all others of a step, one after them, and one round the saving.

Between them lies what every other callback costs (printing, checkpoints), so that a step's time splits into waiting for data,
computing, saving, and the rest. They share one object, and write one record a step.
"""

from __future__ import annotations

import math
import time
from typing import Any

from mindformers.core.callback.callback import CheckpointMonitor
from mindspore.train import Callback

from mindrecipe.measure.curves import WARM_UP_STEPS
from mindrecipe.measure.record import RankStep, StepRecord
from mindrecipe.worker.gauges import Gauges, GroupNorms, UpdateRatio
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.keeper import Keeper
from mindrecipe.worker.loss import Agreement
from mindrecipe.worker.outputs import StepOutputs
from mindrecipe.worker.scale import Scale
from mindrecipe.worker.stopping import StopRequest
from mindrecipe.worker.verdict import Verdict
from mindrecipe.worker.watch import Watch, act

_clock = time.perf_counter


class StepStart(Callback):
    """The first callback of a step: takes the times, and the step's outputs off the device."""

    def __init__(self, stop: StopRequest, *, final_checkpoint: bool) -> None:
        super().__init__()
        self._stop = stop
        self.began = self.computed = self.ended = self.recorded = _clock()
        self.outputs: StepOutputs | None = None
        self._final_checkpoint = final_checkpoint
        self.monitor: CheckpointMonitor | None = None

    def on_train_begin(self, run_context: Any) -> None:
        """The wait for the first batch starts here."""
        self.ended = self.recorded = _clock()

    def on_train_step_begin(self, run_context: Any) -> None:
        """The batch is there."""
        self.began = _clock()

    @property
    def saves_at_the_end(self) -> bool:
        """mindformers always saves when training ends: wanted with checkpoint.save_final, and when a run is stopped before its end."""
        return self._final_checkpoint or self._stop.agreed

    @property
    def host_time(self) -> float:
        """Seconds this rank has spent since its last step on anything but the step: on its data, and on callbacks."""
        return self.began - self.recorded + _clock() - self.computed

    def on_train_step_end(self, run_context: Any) -> None:
        """The step has been launched; reading its outputs waits until it is computed.

        Norms of single parameters are kept from the callbacks that follow: mindformers' would print all of them at every step.
        """
        arguments = run_context.original_args()
        self.outputs = StepOutputs.of(arguments.net_outputs)
        if self.outputs.square_sums is not None:
            arguments.net_outputs = tuple(arguments.net_outputs)[:5]
        self.computed = _clock()

    def on_train_end(self, run_context: Any) -> None:
        """Tell mindformers that this step has been saved where nothing is to be saved at the end."""
        if self.monitor is not None and not self.saves_at_the_end:
            self.monitor._last_triggered_step = run_context.original_args().cur_step_num


class Lap(Callback):
    """Stands before (``of`` None) and after (``of`` the one before) another callback, whose time at the end of a step is ``took``."""

    def __init__(self, of: Lap | None = None) -> None:
        super().__init__()
        self._of = of
        self.passed = 0.0
        self.took = 0.0

    def on_train_step_end(self, run_context: Any) -> None:
        """Take the time."""
        self.passed = _clock()
        if self._of is not None:
            self.took = self.passed - self._of.passed


class StepEnd(Callback):
    """The last callback of a step: writes its record, announces phases and checkpoints, and ends a run that has diverged."""

    def __init__(
        self,
        start: StepStart,
        journal: Journal,
        scale: Scale,
        agree: Agreement,
        verdict: Verdict,
        watch: Watch | None,
        gauges: Gauges,
        stop: StopRequest,
        keeper: Keeper | None,
        profiled: range,
    ) -> None:
        super().__init__()
        self._start = start
        self._profiled = profiled
        self._journal = journal
        self._scale = scale
        self._agree = agree
        self._verdict = verdict
        self._memory = gauges.memory
        self._updates = UpdateRatio(gauges.update_ratio_steps)
        self._weights: list[Any] = []
        self._group_norms = GroupNorms(())
        self.saving: Lap | None = None
        self._cpu = time.process_time()
        self._watch = watch
        self._stop = stop
        self._keeper = keeper
        self._compiled = False
        self._records = 0
        self.network: Any = None
        self._gate: Any = None
        self.step = scale.first

    def on_train_begin(self, run_context: Any) -> None:
        """Everything is built; the first step compiles the graph."""
        self.network = run_context.original_args().train_network
        self._weights = list(getattr(getattr(self.network, "optimizer", None), "parameters", ()))
        self._group_norms = GroupNorms([weight.name for weight in self._weights])
        self._gate = getattr(self.network, "loss_gate", None)
        self._set_gate()
        self._journal.phase("compile")

    def on_train_step_end(self, run_context: Any) -> None:
        """Write the record of this step."""
        start, arguments = self._start, run_context.original_args()
        outputs = start.outputs
        assert outputs is not None, "StepStart runs before StepEnd"
        asked = _clock()
        agreed = self._agree(outputs.loss, stop=self._stop.asked, host_time=start.host_time)
        loss = agreed.loss
        waited = _clock() - asked  # for the other ranks: communication, which counts as computing
        before, self.step = self.step, self._scale.first + arguments.cur_step_num
        ratio = self._updates.after_step(self.step, self._weights)
        now = _clock()
        record = self._record(outputs, loss, arguments.cur_epoch_num, now, waited, ratio, steps=self.step - before)
        self._journal.step(record)
        if self._journal.tells_rank_steps:
            self._journal.rank_step(RankStep.of(record))
        if not self._compiled:
            self._compiled = True
            self._stop.arm()
            self._journal.phase("train", first_step=self.step, first_step_time=now - start.ended)
        try:
            self._judge(record, agreed.host_times)
        except Exception as error:
            if self._keeper is not None:
                if not getattr(error, "spoils", True):
                    self._look_after_save(arguments)
                self._keeper.close(lost=True)  # the launcher kills this process once it is told why: saves that are under way count
            raise
        self._look_after_save(arguments)  # once the step is found good: what is rolled back leaves no checkpoint
        start.ended, start.recorded = now, _clock()
        if agreed.stop:
            self._stop.agreed = True
            run_context.request_stop()

    def _judge(self, record: StepRecord, host_times: tuple[float, ...]) -> None:
        """Raises what ends the run."""
        self._verdict.judge(record.step, record.loss, overflow=record.overflow, loss_scale=record.loss_scale)
        if self._watch is not None:
            for alarm in self._watch.look(record, host_times):
                self._journal.phase("alarm", step=record.step, watcher=alarm.watcher, message=alarm.message)
                act(alarm, record.step)
            self._set_gate()

    def _look_after_save(self, arguments: Any) -> None:
        if self._keeper is None:
            return
        streaks = (self._verdict.undecided, None if self._watch is None else self._watch.undecided)
        undecided = min((first for first in streaks if first is not None), default=None)
        self._keeper.look(arguments.cur_step_num, self.step, arguments.cur_epoch_num, undecided)

    def _set_gate(self) -> None:
        """On rank 0 of a run whose step cell has a gate (loss_gate.py): its limit for the next step."""
        if self._gate is not None and self._watch is not None:
            self._gate.set_limit(self._watch.loss_limit)

    def on_train_end(self, run_context: Any) -> None:
        """mindformers may have saved once more when training ended. SIGTERM ends no rank before all have finished their checkpoints."""
        arguments = run_context.original_args()
        if self._keeper is not None:
            if self._start.saves_at_the_end:
                self._look_after_save(arguments)
            self._keeper.close()
        self._agree(0.0, stop=self._stop.agreed, host_time=0.0)  # msrun ends the others with the first that leaves, or that is ended

    def _record(
        self, outputs: StepOutputs, loss: float, epoch: int, now: float, waited: float, update_ratio: float | None, *, steps: int
    ) -> StepRecord:
        """The record of the last of ``steps`` steps taken in one go (runner_config.sink_size), with the mean of their times."""
        start, scale = self._start, self._scale
        took = (now - start.ended) / steps
        flops = scale.flops / took if scale.flops is not None else None
        cpu_before, self._cpu = self._cpu, time.process_time()
        self._records += 1
        return StepRecord(
            step=self.step,
            epoch=(self.step - 1) // scale.steps_per_epoch + 1 if scale.steps_per_epoch else epoch,
            loss=loss,
            lr=math.nan if outputs.lr is None else outputs.lr,
            grad_norm=outputs.grad_norm,
            loss_scale=outputs.loss_scale,
            overflow=outputs.overflow,
            step_time=took,
            data_time=(start.began - start.recorded) / steps,
            compute_time=(start.computed - start.began + waited) / steps,
            # the last record's writing is of this step
            other_time=(now - start.computed - waited + start.recorded - start.ended) / steps,
            tokens_per_s=scale.tokens / took,
            tflops_per_device=flops / 1e12 if flops is not None else None,
            mfu=flops / scale.peak if flops is not None and scale.peak else None,
            memory_bytes=self._memory(),
            hfu=flops * scale.recomputed / scale.peak if flops is not None and scale.peak and scale.recomputed else None,
            checkpoint_time=self.saving.took / steps if self.saving is not None else 0.0,
            cpu_time=(self._cpu - cpu_before) / steps,
            grad_groups=None if outputs.square_sums is None else self._group_norms(outputs.square_sums),
            update_ratio=update_ratio,
            profiled=self.step in self._profiled,
            warm_up=self._records <= WARM_UP_STEPS,
        )
