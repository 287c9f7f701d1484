"""The figures of a run from its records."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from samples import step

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, Usage
from mindrecipe.measure.summary import HeldOut, Session, heldout_loss, history, perplexity, phase_times, summarise

DONE = Outcome(state="completed", exit_code=0)
CLOCK = Session(started=1000.0, first_step=1012.5, ended=1100.0)


def test_speed_leaves_the_first_two_steps_out() -> None:
    steps = [step(1, tokens_per_s=1.0, step_time=30.0), step(2, tokens_per_s=2.0, step_time=9.0)]
    steps += [step(3 + n, tokens_per_s=100.0 + n, step_time=0.1 * (n + 1)) for n in range(5)]
    summary = summarise(DONE, steps, session=CLOCK)
    assert summary.tokens_per_s == 102.0
    assert summary.step_time == pytest.approx({"p50": 0.3, "p95": 0.48, "p99": 0.496})


def test_profiled_steps_count_for_neither_memory_nor_use() -> None:
    """The profiler keeps what it records in memory, and writes it to the disk."""
    steps = [step(n, step_time=1.0, memory_bytes=2**30, profiled=False) for n in range(1, 21)]
    steps[9] = replace(steps[9], memory_bytes=2**33, profiled=True)  # it ends 9 s after the first one
    steps[10] = replace(steps[10], memory_bytes=2**33, profiled=True)
    quiet = Usage(
        time=0.0,
        cpu=1.0,
        host_cpu=1.0,
        rss=2**30,
        host_memory=2**31,
        disk_read=0.0,
        disk_write=0.0,
        net_sent=0.0,
        net_received=0.0,
        npu=None,
    )
    loud = (1021.0, 1025.0)  # the profiler was at work from 1020.5 to 1022.5
    samples = [replace(quiet, time=time, rss=2**33 if time in loud else 2**30) for time in (1010.0, 1017.5, 1021.0, 1025.0, 1030.0)]
    summary = summarise(DONE, steps, session=CLOCK, usage=samples)
    assert (summary.peak_memory_bytes, summary.mean_memory_bytes, summary.usage["rss"]) == (2**30, 2**30, 2**30)


def test_two_steps_say_nothing_of_speed() -> None:
    summary = summarise(DONE, [step(1), step(2)], session=CLOCK)
    assert summary.tokens_per_s is None
    assert summary.step_time == {"p50": None, "p95": None, "p99": None}
    assert summary.tflops_per_device is None
    assert summary.steps == 2


def test_a_run_without_steps() -> None:
    summary = summarise(Outcome(state="failed", exit_code=1), [], session=Session(started=0.0, ended=1.0))
    assert summary.steps == 0
    assert (summary.first_loss, summary.final_loss, summary.time_to_first_step, summary.peak_memory_bytes) == (None, None, None, None)


def test_loss_memory_overflow_and_clock() -> None:
    steps = [step(1, loss=5.5, memory_bytes=7), step(2, overflow=True, memory_bytes=9), step(3, loss=4.25, memory_bytes=8)]
    summary = summarise(DONE, steps, session=CLOCK, total_steps=3)
    assert (summary.first_loss, summary.final_loss, summary.peak_memory_bytes, summary.overflow_steps) == (5.5, 4.25, 9, 1)
    assert summary.time_to_first_step == 12.5
    assert summary.started == "1970-01-01T00:16:40.000+00:00"


def test_held_out_loss_weighs_ranks_by_their_tokens() -> None:
    parts = [HeldOut(loss_sum=30.0, tokens=10), HeldOut(loss_sum=10.0, tokens=30)]
    summary = summarise(DONE, [step(1)], session=CLOCK, heldout=parts, unigram_entropy=2.0)
    assert summary.heldout_loss == 1.0
    assert summary.perplexity == pytest.approx(math.e)
    assert summary.heldout_tokens == 40
    assert summary.unigram_entropy == 2.0


def test_no_held_out_tokens_no_loss() -> None:
    assert heldout_loss([]) is None
    assert heldout_loss([HeldOut(loss_sum=0.0, tokens=0)]) is None
    assert perplexity(1e6) == math.inf


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint() -> None:
    first = [step(number, loss=10.0 - number) for number in range(1, 6)]
    second = [step(number, loss=20.0 - number) for number in range(4, 5)]
    assert [record.step for record in history([*first, *second])] == [1, 2, 3, 4]
    summary = summarise(DONE, second, session=CLOCK, earlier=first)
    assert (summary.steps, summary.first_loss, summary.final_loss) == (4, 9.0, 16.0)


def test_a_launch_that_only_evaluates_tells_the_speed_of_those_that_trained() -> None:
    trained = [step(number) for number in range(1, 11)]
    whole, left = summarise(DONE, trained, session=CLOCK), summarise(DONE, [], session=CLOCK, earlier=trained)
    assert left.tokens_per_s == whole.tokens_per_s is not None and left.step_time == whole.step_time
    assert left.peak_memory_bytes == whole.peak_memory_bytes is not None and left.time_shares == whole.time_shares


def test_the_first_bad_step_is_the_one_the_rank_named_else_the_first_that_is_not_finite() -> None:
    steps = [step(1), step(2, loss=math.nan), step(3, loss=math.nan)]
    told = RankError(rank=0, type="Diverged", message="", log="l", time=0.0, step=7)
    assert summarise(Outcome(state="diverged", exit_code=1), steps, session=CLOCK).first_bad_step == 2
    assert summarise(Outcome(state="diverged", exit_code=1, errors=(told,)), steps, session=CLOCK).first_bad_step == 7
    assert summarise(DONE, steps, session=CLOCK).first_bad_step is None


def test_phases_are_the_lowest_ranks() -> None:
    def event(phase: str, rank: int, time: float) -> Event:
        return Event(phase=phase, rank=rank, pid=1, time=time, detail={})

    told = [("import", 0, 1.0), ("import", 1, 0.0), ("train", 0, 4.0), ("checkpoint", 0, 9.0), ("evaluate", 0, 10.0), ("done", 0, 12.0)]
    assert phase_times([event(*item) for item in told], ended=50.0) == {"import": 3.0, "train": 6.0, "evaluate": 2.0}
    assert phase_times([event("import", 0, 1.0)], ended=3.5) == {"import": 2.5}
    assert phase_times([], ended=1.0) == {}


def test_warm_up_and_compilation_are_kept_apart_and_the_time_is_accounted_for() -> None:
    steps = [step(1, step_time=9.0, compute_time=8.5), step(2, step_time=0.9, compute_time=0.5)]
    steps += [step(3 + n, step_time=0.5, data_time=0.1, compute_time=0.3, other_time=0.1, checkpoint_time=0.05) for n in range(10)]
    summary = summarise(DONE, steps, session=CLOCK, tokens_per_sample=100)
    assert summary.warm_up_times == [9.0, 0.9]
    assert summary.compile_time == pytest.approx(8.2)
    assert summary.time_shares == pytest.approx({"data": 0.2, "compute": 0.6, "checkpoint": 0.1, "other": 0.1})
    assert summary.samples_per_s == 100.0


def test_clipped_steps_and_the_last_window_of_losses() -> None:
    steps = [step(n + 1, loss=float(n % 2), grad_norm=0.5 + n % 2) for n in range(30)]
    summary = summarise(DONE, steps, session=CLOCK, grad_clip=1.0)
    assert summary.clipped_steps == 15 and summarise(DONE, steps, session=CLOCK).clipped_steps is None
    assert (summary.loss_mean, summary.loss_variance) == (0.5, 0.25)


def test_usage_is_the_mean_of_what_was_there() -> None:
    samples = [Usage(time=float(n), cpu=n, host_cpu=2.0, rss=100 * n, host_memory=5, disk_read=None, disk_write=n * 1.0, net_sent=0.0,
                     net_received=0.0, npu=None) for n in (1, 3)]  # fmt: skip
    usage = summarise(DONE, [step(1)], session=CLOCK, usage=samples).usage
    assert usage["cpu"] == 2.0 and usage["rss"] == 200 and "disk_read" not in usage and "npu" not in usage and "time" not in usage
