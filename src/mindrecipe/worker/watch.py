"""Watchers of training: what is out of the ordinary, step by step. Rank 0 looks for all: when it ends, the launcher ends the others.

Loss and gradient norm are compared with their own median of the last steps. A rank is slow when its host (data, callbacks)
keeps the others waiting; who is slow inside the step can't be told, as all ranks leave a collective together.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindrecipe.measure.record import StepRecord

_SLOW_STEPS = 20


class Stopped(Exception):
    """A watcher whose action is stop ends the run. ``facts``: the step; ``spoils``: what this step has left is not to be gone on from."""

    def __init__(self, what: str, *, step: int, spoils: bool = True) -> None:
        super().__init__(what)
        self.facts: dict[str, Any] = {"step": step}
        self.spoils = spoils


class RollBack(Stopped):
    """The same for roll_back: the launcher starts again from a checkpoint before the step."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing out of the ordinary: the watcher's knob, what to do, and what to say."""

    watcher: str
    action: str
    message: str


class Spike:
    """Values that jump beyond ``factor`` times the median of the last ``window``; a run of them is told once."""

    def __init__(self, factor: float, window: int) -> None:
        self._factor = factor
        self._values: deque[float] = deque(maxlen=window)
        self._enough = max(5, window // 5)
        self._high = False
        self._median = math.inf  # as long as too few are known
        #: the largest value that is no spike, a float32
        self.limit = math.inf

    def look(self, value: float | None, *, each: bool = False) -> float | None:
        """How many times the median ``value`` is, where that is a new spike (``each``: any spike). Spikes do not move the median."""
        if value is None or not math.isfinite(value):
            return None
        if value <= self.limit:
            self._values.append(value)
            self._high = False
            if len(self._values) >= self._enough:
                self._median = statistics.median(self._values)
                self.limit = float(np.float32(self._factor * self._median))
            return None
        known, self._high = self._high, True
        return None if known and not each else value / self._median


class Watch:
    """All watchers of one run. ``config``: the section of that name; ``before``: the steps before this process, oldest first, so that a
    run that was rolled back sees the same spike again.
    """

    def __init__(self, config: dict[str, Any], before: Iterable[StepRecord] = ()) -> None:
        self._config = config
        self._loss = Spike(config["loss_spike_factor"], config["window"])
        self._norm = Spike(config["grad_spike_factor"], config["window"])
        self._hosts: deque[tuple[float, ...]] = deque(maxlen=_SLOW_STEPS)
        self._steps: deque[float] = deque(maxlen=_SLOW_STEPS)
        self._slow: int | None = None
        self._skips = self._first_skip = 0
        for record in before:
            self._loss.look(record.loss)
            self._norm.look(record.grad_norm)

    def look(self, record: StepRecord, host_times: tuple[float, ...]) -> Iterator[Alarm]:
        """The alarms of one step, without those whose action is off."""
        step, loss, norm = record.step, record.loss, record.grad_norm
        told = [
            ("loss_spike", self._loss_spike(loss, step)),
            ("grad_spike", self._skipped(norm, step) or self._spike("gradient norm", self._norm.look(norm), norm, step)),
            ("slow_rank", None if record.profiled else self._slow_rank(host_times, record.step_time)),
        ]
        for watcher, message in told:
            if message is not None and self._config[watcher] != "off":
                yield Alarm(watcher, self._config[watcher], message)

    @property
    def loss_limit(self) -> float:
        """The largest loss that is no spike at the next step."""
        return self._loss.limit

    @property
    def undecided(self) -> int | None:
        """The first of the steps in a row whose updates are skipped so far (loss_spike=skip); None where the last one's was made."""
        return self._first_skip if self._skips else None

    def _loss_spike(self, loss: float, step: int) -> str | None:
        """With skip the step cell has left the update out by itself (loss_gate.py)."""
        if self._config["loss_spike"] != "skip":
            return self._spike("loss", self._loss.look(loss), loss, step)
        limit = self._loss.limit
        if self._loss.look(loss, each=True) is None:
            self._skips = 0
            return None
        if self._skips == 0:
            self._first_skip = step
        self._skips += 1
        if self._skips > self._config["overflow_steps"]:
            what = f"the loss stays above {limit:.4g} for {self._skips} steps though their updates are skipped"
            raise RollBack(what, step=self._first_skip)
        return f"the update of step {step} was skipped: loss {loss:.4g} above {limit:.4g}, watch.loss_spike_factor times the median"

    @staticmethod
    def _spike(what: str, times: float | None, value: float | None, step: int) -> str | None:
        return None if times is None else f"the {what} jumps to {value:.4g} at step {step}, {times:.1f} times its median"

    def _skipped(self, grad_norm: float | None, step: int) -> str | None:
        """The step cell has left the update out by itself: only to be told."""
        limit = self._config["grad_norm_limit"] if self._config["grad_spike"] == "skip" else None
        if limit is None or grad_norm is None or grad_norm < limit:
            return None
        return f"the update of step {step} was skipped: gradient norm {grad_norm:.4g}, watch.grad_norm_limit={limit:g}"

    def _slow_rank(self, host_times: tuple[float, ...], step_time: float) -> str | None:
        self._hosts.append(host_times)
        self._steps.append(step_time)
        if len(host_times) < 2 or len(self._hosts) < _SLOW_STEPS:
            return None
        means = [statistics.fmean(times) for times in zip(*self._hosts, strict=True)]
        slowest = max(range(len(means)), key=means.__getitem__)
        others = statistics.median(mean for rank, mean in enumerate(means) if rank != slowest)
        behind, step = means[slowest] - others, statistics.fmean(self._steps)
        if behind <= self._config["slow_rank_share"] * step:
            self._slow = None
            return None
        known, self._slow = self._slow == slowest, slowest
        return None if known else f"rank {slowest} keeps the others waiting for {behind:.3g} s of a step's {step:.3g} s"


def act(alarm: Alarm, step: int) -> None:
    """Raise what the alarm's action asks for; nothing for warn and skip."""
    if alarm.action == "stop":
        raise Stopped(f"{alarm.message} (watch.{alarm.watcher}=stop)", step=step, spoils=alarm.watcher != "slow_rank")
    if alarm.action == "roll_back":
        raise RollBack(f"{alarm.message} (watch.{alarm.watcher}=roll_back)", step=step)
