"""The watchers, fed with numbers; with faults that are really injected: test_watch_e2e.py."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from mindrecipe.config.schema import WatchConfig
from mindrecipe.measure.record import StepRecord
from mindrecipe.worker.watch import Alarm, RollBack, Spike, Stopped, Watch, act


def record(step: int, loss: float, norm: float = 1.0) -> StepRecord:
    return StepRecord(
        step=step, epoch=1, loss=loss, lr=1.0, grad_norm=norm, loss_scale=None, overflow=False, step_time=1.0, data_time=0.0,
        compute_time=1.0, other_time=0.0, tokens_per_s=1.0, tflops_per_device=0.0, mfu=None, memory_bytes=None,
    )  # fmt: skip


def alarms(
    watch: Watch, losses: list[float], *, norms: list[float] | None = None, hosts: tuple[float, ...] = (0.0,)
) -> list[tuple[int, Alarm]]:
    told = []
    for step, loss in enumerate(losses, 1):
        told += [(step, alarm) for alarm in watch.look(record(step, loss, norms[step - 1] if norms else 1.0), hosts)]
    return told


def test_a_run_that_was_rolled_back_sees_the_same_spike_again() -> None:
    before = [record(step, 5.0) for step in range(1, 19)]
    again = Watch(asdict(WatchConfig()), before)
    told = [alarm for step, loss in ((19, 5.0), (20, 9.0)) for alarm in again.look(record(step, loss), (0.0,))]
    assert [alarm.watcher for alarm in told] == ["loss_spike"]


def watch(**changes: Any) -> Watch:
    return Watch(asdict(WatchConfig()) | changes)


def test_a_spike_is_told_once_and_does_not_move_the_median() -> None:
    ((step, alarm),) = alarms(watch(), [5.0] * 12 + [9.0] * 5 + [5.0] * 3)
    assert (step, alarm.watcher, alarm.action) == (13, "loss_spike", "warn")
    assert alarm.message == "the loss jumps to 9 at step 13, 1.8 times its median"
    assert [step for step, _ in alarms(watch(), [5.0] * 12 + [9.0, 5.0, 9.0])] == [13, 15]


def test_the_gradient_norm_has_a_median_of_its_own() -> None:
    ((step, alarm),) = alarms(watch(), [5.0] * 15, norms=[1.0] * 14 + [20.0])
    assert (step, alarm.watcher) == (15, "grad_spike")


def test_a_falling_loss_and_the_first_steps_say_nothing() -> None:
    assert alarms(watch(), [100.0, 1.0, 50.0] + [10.0 - 0.1 * step for step in range(60)]) == []
    assert alarms(watch(), [5.0] * 20 + [float("nan")]) == [], "that is another watcher's"


def test_off_is_off() -> None:
    assert alarms(watch(loss_spike="off"), [5.0] * 12 + [9.0]) == []


def test_a_rank_that_keeps_the_others_waiting() -> None:
    ((step, alarm),) = alarms(watch(), [5.0] * 60, hosts=(0.01, 0.02, 0.8, 0.01))
    assert (step, alarm.watcher) == (20, "slow_rank")
    assert alarm.message.startswith("rank 2 keeps the others waiting for 0.79 s of a step's 1 s")
    assert alarms(watch(), [5.0] * 60, hosts=(0.5, 0.5, 0.5)) == [], "all are slow: nobody waits for one"


def test_what_follows() -> None:
    act(Alarm("loss_spike", "warn", "m"), 7)
    with pytest.raises(Stopped, match="watch.loss_spike=stop") as stopped:
        act(Alarm("loss_spike", "stop", "m"), 7)
    assert stopped.value.facts == {"step": 7} and type(stopped.value).__name__ == "Stopped"
    assert stopped.value.spoils
    with pytest.raises(Stopped) as stopped:
        act(Alarm("slow_rank", "stop", "m"), 7)
    assert not stopped.value.spoils, "the weights of a slow rank are as good as any"
    with pytest.raises(RollBack):
        act(Alarm("loss_spike", "roll_back", "m"), 7)


def test_a_window_too_short_to_know() -> None:
    spike = Spike(2.0, 5)
    assert [spike.look(value) for value in (1.0, 1.0, 1.0, 1.0, 9.0)] == [None] * 5


def test_a_loss_that_is_skipped_is_told_each_time_and_moves_nothing() -> None:
    told = alarms(watch(loss_spike="skip"), [5.0] * 12 + [9.0] * 3 + [5.0, 9.0])
    assert [(step, alarm.action) for step, alarm in told] == [(13, "skip"), (14, "skip"), (15, "skip"), (17, "skip")]
    assert told[0][1].message == "the update of step 13 was skipped: loss 9 above 7.5, watch.loss_spike_factor times the median"


def test_skipping_that_does_not_help_rolls_back() -> None:
    """The weights are bad already: no batch is good enough."""
    losses = [5.0] * 12 + [9.0] * 20
    with pytest.raises(RollBack, match="stays above 7.5 for 9 steps though their updates are skipped") as told:
        alarms(watch(loss_spike="skip"), losses)
    assert told.value.facts == {"step": 13}, "back behind the first of them, not the last"
    skipping = watch(loss_spike="skip")
    alarms(skipping, losses[:15])
    assert skipping.undecided == 13
    list(skipping.look(record(16, 5.0), (0.0,)))
    assert skipping.undecided is None


def test_the_limit_is_what_the_step_compares_with() -> None:
    looking = watch(loss_spike_factor=1.1)
    assert looking.loss_limit == math.inf, "too few steps to know"
    alarms(looking, [5.0] * 10)
    assert looking.loss_limit == float(np.float32(5.5)) != 5.5 * 1.0000001
    assert [step for step, _ in alarms(watch(loss_spike_factor=1.1), [5.0] * 10 + [looking.loss_limit])] == [], "the limit itself is none"
