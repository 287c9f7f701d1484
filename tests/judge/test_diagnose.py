"""Every cause on recorded metrics: just above its threshold it is named, just below it is not; a healthy run has none."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import profile_samples
import pytest
from runs import make, steps, usage

from mends import quick
from mindrecipe.config.compose import compose_and_find
from mindrecipe.freeze import derived_facts, to_yaml
from mindrecipe.judge.diagnosis import diagnose
from mindrecipe.judge.diagnosis.registry import causes
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.report import sheet
from mindrecipe.launch.failure import from_death
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, RankStep, StepRecord
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.clock import price
from mindrecipe.plan.of_run import job_of

Change = Callable[[StepRecord], StepRecord]
TRAIN = [Event(phase="train", rank=0, pid=1, time=10.0, detail={})]


def named(folder: Path, change: Change = lambda record: record, count: int = 120, **more: Any) -> list[str]:
    records = [change(record) for record in steps(count, seed=1, cpu_time=0.3)]
    return [found.cause for found in diagnose(Recorded(make(folder / "run", records, **more)))]


def slower(share: float, name: str) -> Change:
    """``share`` of the step goes to ``name``."""

    def change(record: StepRecord) -> StepRecord:
        extra = record.step_time * share / (1 - share)
        more = {name: getattr(record, name) + extra, "step_time": record.step_time + extra}
        if name == "checkpoint_time":
            more["other_time"] = record.other_time + extra
        return replace(record, **more)

    return change


def test_a_healthy_run_has_none(tmp_path: Path) -> None:
    assert named(tmp_path) == []
    assert named(tmp_path / "ranks", ranks=ranks(0.0)) == []


def test_a_short_run_says_nothing_of_its_speed(tmp_path: Path) -> None:
    assert named(tmp_path, slower(0.5, "data_time"), count=10) == []


@pytest.mark.parametrize(
    ("name", "share", "cause"),
    [("data_time", 0.10, "data_bound"), ("checkpoint_time", 0.05, "checkpoint_stalls"), ("other_time", 0.05, "host_bottleneck")],
)
def test_time_that_goes_elsewhere(tmp_path: Path, name: str, share: float, cause: str) -> None:
    assert named(tmp_path / "above", slower(share + 0.02, name)) == [cause]
    assert named(tmp_path / "below", slower(share - 0.02, name)) == []


@pytest.mark.parametrize(
    ("workers", "machine", "expected"),
    [
        (2, {"cores": 2, "cpu_count": 64}, "dataset.num_parallel_workers=4 "),
        (3, {"cores": 2, "cpu_count": 4}, "dataset.num_parallel_workers=4 "),
        (1, {"cores": 2}, "dataset.num_parallel_workers=2 "),
        (2, {"cores": 2, "cpu_count": 2}, ""),
        (2, {"cores": 2}, ""),
        (8, {}, ""),
    ],
)
def test_no_more_threads_than_the_run_s_machine_has_cores(workers: int, machine: dict[str, int], expected: str, tmp_path: Path) -> None:
    """MindSpore refuses them: what is said to be tried must not end the run."""
    records = [slower(0.3, "data_time")(record) for record in steps(60)]
    config = {"dataset": {"num_parallel_workers": workers, "prefetch_size": 2}}
    (found,) = diagnose(Recorded(make(tmp_path / "run", records, config=config, lock={"machine": machine})))
    assert found.mend == f"{expected}dataset.prefetch_size=4"


def at(found: dict[int, dict[str, Any]]) -> Change:
    return lambda record: replace(record, **found.get(record.step, {}))


def test_compiling_again_uses_the_cpu_and_a_stall_does_not(tmp_path: Path) -> None:
    compiled = {step: {"compute_time": 6.0, "step_time": 6.0, "cpu_time": 5.0} for step in (40, 60)}
    stood = {step: {"compute_time": 9.0, "step_time": 9.0, "cpu_time": 0.3} for step in (40,)}
    assert named(tmp_path / "compiled", at(compiled)) == ["recompilation"]
    assert named(tmp_path / "stood", at(stood)) == ["stalls"]


def test_drift_without_more_work(tmp_path: Path) -> None:
    late: Change = lambda record: replace(record, step_time=record.step_time * (1.3 if record.step > 70 else 1))  # noqa: E731
    assert named(tmp_path / "heat", late) == ["drift"]
    work: Change = lambda record: replace(late(record), cpu_time=0.3 * (1.3 if record.step > 70 else 1))  # noqa: E731
    assert named(tmp_path / "work", work) == []


def test_neighbours(tmp_path: Path) -> None:
    busy = [usage(float(second), cpu=1.0, host_cpu=1.6) for second in range(15, 60, 5)]
    assert named(tmp_path / "busy", samples=busy, events=TRAIN) == ["noisy_machine"]
    slower = [replace(record, step_time=record.step_time * (1.3 if record.step > 70 else 1)) for record in steps(100)]
    found = {each.cause: each for each in diagnose(Recorded(make(tmp_path / "slower", slower, samples=busy, events=TRAIN)))}
    assert set(found) == {"noisy_machine", "drift"} and "other processes use 30 %" in found["drift"].what
    assert "temperature" not in found["drift"].mend, "what is known to be a neighbour is no heat"
    assert named(tmp_path / "npu", samples=busy, events=TRAIN, derived={"device_target": "Ascend", "device": "ascend_910b"}) == []


def test_low_mfu(tmp_path: Path) -> None:
    assert named(tmp_path / "low", lambda record: replace(record, mfu=0.05)) == ["low_mfu"]
    assert named(tmp_path / "fine", lambda record: replace(record, mfu=0.4)) == []


@pytest.mark.parametrize(("share", "expected"), [(0.6, ["low_mfu"]), (0.8, [])])
def test_mfu_is_held_against_the_plan(share: float, expected: list[str], tmp_path: Path) -> None:
    """Of the run's own layout and device; 0.6 of it would pass a threshold for all runs."""
    run = quick("+model=llama2_7b", "device=ascend_910b", "parallel=semi_auto", "parallel.model_parallel=8", "amp=O2", "launch.workers=8")
    derived = run.derived
    job = job_of(derived.config, derived.family, derived.hardware, derived.device_num)
    plan = price(job, efficiency_of(job)).mfu
    assert share * plan > 0.15, "else it says nothing"
    records = [replace(record, mfu=share * plan) for record in steps(60)]
    path = make(tmp_path / "run", records, derived=derived_facts(derived, None))
    (path / "config.yaml").write_text(to_yaml(dataclasses.asdict(derived.config)))
    found = diagnose(Recorded(path))
    assert [each.cause for each in found] == expected
    if found:
        assert f"the plan of this layout on this device is {100 * plan:.1f} %" in found[0].threshold and found[0].cost == pytest.approx(0.4)


def test_where_the_plan_has_no_estimate_it_is_said(tmp_path: Path) -> None:
    low = [replace(record, mfu=0.05) for record in steps(60)]
    (found,) = diagnose(Recorded(make(tmp_path / "run", low)))
    assert found.cause == "low_mfu" and found.threshold.startswith("15 %, as the planner has no estimate")


def ranks(late: float) -> dict[int, list[RankStep]]:
    """Rank 1 takes ``late`` seconds for its data, which rank 0 waits for."""
    return {
        rank: [
            RankStep(step=n, time=float(n), data_time=0.001 + late * rank, compute_time=0.2 + late * (1 - rank), other_time=0.001)
            for n in range(1, 80)
        ]
        for rank in (0, 1)
    }


def test_a_straggler_is_the_rank_that_does_not_wait(tmp_path: Path) -> None:
    (found,) = diagnose(Recorded(make(tmp_path / "run", steps(80), ranks=ranks(0.05))))
    assert found.cause == "straggler" and found.what.startswith("rank 1 waits for its data") and found.cost == pytest.approx(0.2, abs=0.03)
    assert named(tmp_path / "even", ranks=ranks(0.01)) == []


@pytest.mark.parametrize(("more", "expected"), [(0.10, ["compute_skew"]), (0.02, [])])
def test_a_rank_that_computes_longer_is_the_one_that_works(more: float, expected: list[str], tmp_path: Path) -> None:
    """All leave the collective together, so that their steps take as long; who waits uses no CPU."""
    own = {rank: [replace(record, cpu_time=0.15 + more * rank) for record in records] for rank, records in ranks(0.0).items()}
    found = diagnose(Recorded(make(tmp_path / "run", steps(80), ranks=own)))
    assert [each.cause for each in found] == expected
    assert not found or ("rank 1 computes longer" in found[0].what and "250 ms of CPU time a step, 150 ms" in found[0].evidence)
    npu = {"device_target": "Ascend", "device": "ascend_910b"}
    assert named(tmp_path / "npu", ranks=own, derived=npu) == [], "the host's CPU time says nothing of a device"


def test_a_profiled_rank_is_no_straggler_and_its_steps_are_not_timed(tmp_path: Path) -> None:
    """The profiler holds up rank 0 at its steps, and all others wait for it."""
    watched = {step: {"profiled": True, "other_time": 9.0, "step_time": 9.2} for step in range(30, 40)}
    own = ranks(0.0)
    own[0] = [replace(record, other_time=9.0) if record.step in watched else record for record in own[0]]
    assert named(tmp_path / "marked", at(watched), ranks=own) == []
    unmarked = {step: {**changes, "profiled": False} for step, changes in watched.items()}
    assert set(named(tmp_path / "unmarked", at(unmarked), ranks=own)) == {"host_bottleneck", "stalls", "straggler"}


def test_losses_that_are_no_numbers(tmp_path: Path) -> None:
    def explode(record: StepRecord) -> StepRecord:
        if record.step > 90:
            return replace(record, loss=math.nan)
        return replace(record, loss=record.loss + max(0, record.step - 85), grad_norm=0.5 * 4.0 ** max(0, record.step - 80))

    records = [explode(record) for record in steps(100)]
    told = RankError(rank=0, type="Diverged", message="the loss is nan at step 91", log="l", time=0.0, step=91)
    found = diagnose(Recorded(make(tmp_path / "run", records, outcome=Outcome(state="diverged", exit_code=1, errors=(told,)))))
    assert found[0].cause == "loss_not_a_number" and found[0].cost == 1.0
    assert found[0].mend.startswith("optimizer.learning_rate=0.0001") and "step 91" in found[0].what


FORGIVEN = {50: {"loss": math.inf, "overflow": True, "loss_scale": 1024.0}}


def test_a_loss_that_was_forgiven_or_an_end_by_overflow_is_no_nan(tmp_path: Path) -> None:
    """Under a dynamic loss scale a bad loss whose update is skipped is ordinary life, also as the very last one."""
    assert named(tmp_path / "forgiven", at(FORGIVEN)) == []
    assert named(tmp_path / "last", at({120: FORGIVEN[50]})) == []
    assert named(tmp_path / "for good", at({step: FORGIVEN[50] for step in range(117, 121)})) == ["loss_not_a_number"]
    assert named(tmp_path / "no scale", at({120: {"loss": math.nan}})) == ["loss_not_a_number"]
    ended = ended_by("Overflow", "no update since step 112: the gradients overflow at every step, at a loss scale of 1.0", step=112)
    flags = {step: {"overflow": True, "loss_scale": 1.0} for step in range(112, 121)}
    assert named(tmp_path / "overflow", at(flags), outcome=ended) == ["overflow_streaks"]
    early = {step: {"overflow": True, "loss_scale": 1.0} for step in range(1, 11)}
    assert named(tmp_path / "early", at(early), count=10, outcome=ended_by("Overflow", "no update since step 1", step=1)) == [
        "overflow_streaks"
    ]


def test_a_short_healthy_run_falls_and_does_not_swing(tmp_path: Path) -> None:
    """No noise at all: what is left of the course must not be taken for a swing, at the ends of the window neither."""
    smooth: Change = lambda record: replace(record, loss=4 + 3 * math.exp(-record.step / 30))  # noqa: E731
    for count in (40, 60):
        assert named(tmp_path / str(count), smooth, count=count, derived={"global_batch_size": 4096}) == []


def test_batches_of_rows_in_their_order_differ_more(tmp_path: Path) -> None:
    far: Change = lambda record: replace(record, loss=record.loss + DRAWN[record.step % 97] * 0.6)  # noqa: E731
    assert named(tmp_path / "shuffled", far, count=160, config={"dataset": {"shuffle": True}}) == ["loss_oscillates"]
    assert "loss_oscillates" not in named(tmp_path / "in order", far, count=160, config={"dataset": {"shuffle": False}})


@pytest.mark.parametrize(
    ("shape", "cause"),
    [(lambda n: 4.0 + max(0, n - 40) / 20, "loss_rises"), (lambda n: 6.9, "loss_flat"), (lambda n: 5.0 + (-1) ** n, "loss_oscillates")],
)
def test_one_forgiven_loss_hides_no_other_ill(shape: Callable[[int], float], cause: str, tmp_path: Path) -> None:
    assert cause in named(tmp_path, lambda record: at(FORGIVEN)(replace(record, loss=shape(record.step))))


def ended_by(kind: str, message: str, step: int | None = None, state: str = "diverged") -> Outcome:
    told = RankError(rank=0, type=kind, message=message, log="logs/rank_0.log", time=60.0, step=step)
    return Outcome(state=state, exit_code=1, errors=(told,))


@pytest.mark.parametrize(
    ("swing", "expected"),
    [
        (lambda n: 0.2 * math.sin(math.pi * n / 2), ["loss_oscillates"]),
        (lambda n: 0.2 * (-1) ** n, ["loss_oscillates"]),
        (lambda n: 0.04 * (-1) ** n, []),
        (lambda n: DRAWN[n % 97] * 0.6, ["loss_oscillates"]),
        (lambda n: DRAWN[n % 97] * 0.15, []),
        (lambda n: 0.1 * math.sin(math.pi * n / 60), []),
    ],
    ids=["every four steps", "to and fro", "to and fro, hardly", "at random, and far", "as batches differ", "slowly"],
)
def test_a_loss_that_swings(swing: Callable[[int], float], expected: list[str], tmp_path: Path) -> None:
    """Batches of eight rows: their losses differ by 0.35 nats at the most."""
    assert named(tmp_path, lambda record: replace(record, loss=record.loss + swing(record.step)), count=160) == expected


DRAWN = [math.sin(7919.0 * n * n) * 1.4 for n in range(97)]  # as good as at random, and the same everywhere


def test_data_that_repeats_swings_by_itself(tmp_path: Path) -> None:
    to_and_fro: Change = lambda record: replace(record, loss=record.loss + 0.2 * (-1) ** record.step)  # noqa: E731
    assert named(tmp_path / "two batches", to_and_fro, derived={"steps_per_epoch": 2}) == []
    assert named(tmp_path / "many", to_and_fro, derived={"steps_per_epoch": 200}) == ["loss_oscillates"]


@pytest.mark.parametrize(
    ("shape", "cause"),
    [
        (lambda n: 4.0 if n < 40 else 4.0 + (n - 40) / 20, "loss_rises"),
        (lambda n: 6.9 + 0.01 * (n % 3), "loss_flat"),
        (lambda n: 4.0 + 2.0 * (n in (50, 80, 110)), "dirty_data"),
        (lambda n: 4.0 + max(0.0, 3.0 - 0.5 * (n % 40)) * (n > 40), "loss_spikes"),
    ],
)
def test_shapes_of_the_loss(tmp_path: Path, shape: Callable[[int], float], cause: str) -> None:
    def change(record: StepRecord) -> StepRecord:
        return replace(record, loss=shape(record.step) + record.loss - (4.0 + 3.0 * math.exp(-record.step / 30)))

    assert cause in named(tmp_path, change, count=160)


def flat(level: float, *, easy: int, seed: int = 0, count: int = 120, spread: float = 0.3) -> Change:
    """Losses that do not change but for their batches, of which ``easy`` (a step) is far easier than the others."""
    drawn = np.random.default_rng(seed).normal(level, spread, count)
    return lambda record: replace(record, loss=level - 0.6 if record.step == easy else float(drawn[record.step % count]))


@pytest.mark.parametrize(
    ("starts", "first"),
    [
        ({"derived": {"resume": {"checkpoint": "/a", "file": "x.ckpt", "step": 200}}}, 201),
        ({"config": {"checkpoint": {"load": "/weights"}}}, 1),
        ({"config": {"native": {"load_checkpoint": "/weights"}}}, 1),
        ({"config": {"model": {"extra": {"checkpoint_name_or_path": "/weights"}}}}, 1),
    ],
    ids=["resumed", "loaded", "loaded by mindformers", "loaded by the model"],
)
def test_one_easy_batch_of_trained_weights_is_no_best(starts: dict[str, Any], first: int, tmp_path: Path) -> None:
    small = {"derived": {"global_batch_size": 1, **starts.get("derived", {})}, "config": starts.get("config", {})}
    shape = flat(2.5, easy=first)
    records = [shape(replace(record, step=record.step + first - 1)) for record in steps(120, seed=1)]
    found = diagnose(Recorded(make(tmp_path / "run", records, **small)))
    assert found == []


def test_from_scratch_the_first_loss_counts(tmp_path: Path) -> None:
    """A loss that rises at once and stays there was never as low as before the first update."""
    risen: Change = lambda record: replace(record, loss=6.2 if record.step == 1 else 7.5 + 0.02 * (record.step % 3))  # noqa: E731
    records = [risen(record) for record in steps(120)]
    found = {each.cause: each for each in diagnose(Recorded(make(tmp_path / "run", records)))}
    assert "before the first update" in found["loss_rises"].what and "best at step 1 " in found["loss_rises"].evidence
    again = {"derived": {"resume": {"checkpoint": "/run/checkpoint", "file": "x.ckpt", "step": 60}}}
    restarted = {each.cause for each in diagnose(Recorded(make(tmp_path / "restarted", records, **again)))}
    assert "loss_rises" in restarted, "a run that was started again from its own checkpoint has its first steps, and began at random"


@pytest.mark.parametrize("seed", range(12))
def test_the_lowest_of_many_means_is_no_best(seed: int, tmp_path: Path) -> None:
    """Of 1,500 losses that differ by 0.5 nats the lowest mean of 20 lies 0.3 nats below their course, and the last one may lie above."""
    small = {"derived": {"global_batch_size": 1, "data_seed": 1}, "config": {"checkpoint": {"load": "/weights"}}}
    assert "loss_rises" not in named(tmp_path, flat(2.5, easy=0, seed=seed, count=1500, spread=0.5), count=1500, **small)


def test_a_rise_beyond_what_batches_differ_is_told(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).normal(0.0, 0.3, 400)
    risen: Change = lambda record: replace(record, loss=2.5 + float(noise[record.step - 1]) + 0.6 * (record.step > 250))  # noqa: E731
    small = {"derived": {"global_batch_size": 1}, "config": {"checkpoint": {"load": "/weights"}}}
    assert named(tmp_path, risen, count=400, **small) == ["loss_rises"]


def test_overflows(tmp_path: Path) -> None:
    often: Change = lambda record: replace(record, overflow=record.step % 10 == 0, loss_scale=1024.0)  # noqa: E731
    searching: Change = lambda record: replace(record, overflow=record.step < 6)  # noqa: E731
    assert named(tmp_path / "often", often) == ["overflow_streaks"]
    assert named(tmp_path / "searching", searching) == []
    long: Change = lambda record: replace(record, overflow=record.step < 12)  # noqa: E731
    assert named(tmp_path / "long search", long) == [], "what is counted, and in a row, is of the same steps"
    row: Change = lambda record: replace(record, overflow=400 < record.step <= 408)  # noqa: E731
    (found,) = diagnose(Recorded(make(tmp_path / "row", [row(record) for record in steps(450)])))
    assert found.cause == "overflow_streaks" and found.what.startswith("8 of 430 updates") and "longest streak 8" in found.what


def test_memory(tmp_path: Path) -> None:
    near: Change = lambda record: replace(record, memory_bytes=int(0.95 * 2**34))  # noqa: E731
    assert named(tmp_path / "near", near) == ["memory_near_limit"]
    npu = {"derived": {"device_target": "Ascend"}, "config": {"memory": {"max_device_memory": "58GB"}}}
    assert named(tmp_path / "npu", lambda record: replace(record, memory_bytes=57 * 2**30), **npu) == ["memory_near_limit"]
    told = RankError(rank=0, type="RuntimeError", message="std::bad_alloc", log="logs/rank_0.log", time=0.0)
    assert named(tmp_path / "out", count=3, outcome=Outcome(state="failed", exit_code=1, errors=(told,))) == ["out_of_memory"]


@pytest.mark.parametrize(("used", "expected"), [(0.95, "out_of_memory"), (0.5, "failed")])
def test_a_rank_that_the_kernel_killed(used: float, expected: str, tmp_path: Path) -> None:
    """It says nothing itself; the samples of its memory do."""
    killed = from_death(0, -9, tmp_path / "rank_0.log", 60.0)
    first = RankError(rank=1, type="KeyError", message="'x'", log="logs/rank_1.log", time=59.0)
    samples = [usage(second, rss=int(0.4 * 2**34), host_memory=int(used * 2**34)) for second in (50.0, 55.0)]
    more = {"outcome": Outcome(state="failed", exit_code=1, errors=(killed,)), "samples": samples}
    (found,) = diagnose(Recorded(make(tmp_path / "run", steps(30), **more)))
    assert found.cause == expected
    if expected == "out_of_memory":
        assert "killed" in found.what and "6.4 GiB of its own (rss), 15.2 GiB of the host's 16 GiB" in found.evidence
    else:
        assert "dmesg" in found.mend
    both = Outcome(state="failed", exit_code=1, errors=(first, replace(killed, followed=True)))
    (found,) = diagnose(Recorded(make(tmp_path / "followed", steps(30), outcome=both, samples=samples)))
    assert found.cause == "failed" and "KeyError" in found.what, "the launcher itself ends the others"


@pytest.mark.parametrize(("exposed", "expected"), [(3000.0, ["communication_bound"]), (500.0, [])])
def test_communication_in_a_profile(tmp_path: Path, exposed: float, expected: list[str]) -> None:
    path = make(tmp_path / "run", steps(80))
    profile_samples.trace(path, [(5, 7000.0, exposed, 500.0), (6, 7100.0, exposed, 400.0)], rank=1)
    found = diagnose(Recorded(path))
    assert [each.cause for each in found] == expected
    assert not found or (found[0].cost == pytest.approx(6000 / 21000) and "rank_1" in found[0].evidence)


PROFILED = {"profile": {"enabled": True, "start": 5, "stop": 7}}


@pytest.mark.parametrize(
    ("scale", "every", "expected"), [(0.1, 1200, ["launch_bound"]), (0.9, 1200, []), (0.4, 1200, [])], ids=["short", "busy", "few but long"]
)
def test_operators_shorter_than_their_launches(tmp_path: Path, scale: float, every: int, expected: list[str]) -> None:
    """The operators of the sample last 0.9 of a step, 180 us on average; a rank that waits on long ones is bound by something else."""
    path = make(tmp_path / "run", steps(80), config=PROFILED)
    profile_samples.cpu(path, scale=scale, every=every)
    found = diagnose(Recorded(path))
    assert [each.cause for each in found] == expected
    assert not found or (found[0].cost > 0.8 and "5 of them, 18 us each" in found[0].what and "jit_level" not in found[0].mend)


@pytest.mark.parametrize(("every", "expected"), [(30.0, ["launch_bound"]), (12.0, [])])
def test_kernels_of_a_device_that_waits_for_its_host(tmp_path: Path, every: float, expected: list[str]) -> None:
    path = make(tmp_path / "run", steps(80), config=PROFILED, derived={"device_target": "Ascend"})
    profile_samples.kernels(path, took=10.0, every=every)
    found = diagnose(Recorded(path))
    assert [each.cause for each in found] == expected
    assert not found or "device.jit_level=O1" in found[0].mend


@pytest.mark.parametrize(
    ("allocated", "reserved", "block", "expected"),
    [(40.0, 52.0, None, ["memory_fragmented"]), (44.0, 52.0, None, []), (5.0, 6.9, None, []), (4.0, 6.0, "1GB", ["memory_fragmented"])],
    ids=["in pieces", "little", "one block", "small blocks"],
)
def test_a_pool_in_pieces(tmp_path: Path, allocated: float, reserved: float, block: str | None, expected: list[str]) -> None:
    path = make(
        tmp_path / "run", steps(80), config=PROFILED | {"memory": {"mempool_block_size": block}}, derived={"device_target": "Ascend"}
    )
    profile_samples.pool(path, allocated=allocated, reserved=reserved)
    found = diagnose(Recorded(path))
    assert [each.cause for each in found] == expected
    if found:
        assert "memory_record.csv" in found[0].evidence
        composed, findings = compose_and_find(["+model=llama2_7b", "parallel=semi_auto", "amp=O2", found[0].mend.split()[0], "memory=O1"])
        assert not [finding for finding in findings if finding.severity == "error"]
        assert composed.config.launch.env == {"MS_ALLOC_CONF": "enable_vmm:true"}


def test_a_run_that_failed(tmp_path: Path) -> None:
    told = RankError(rank=1, type="KeyError", message="'x'\nmore", log="logs/rank_1.log", time=0.0)
    assert named(tmp_path, count=3, outcome=Outcome(state="failed", exit_code=1, errors=(told,))) == ["failed"]


NO_RANK = [
    ("Stalled", "no step for 300 s after step 20, more than launch.stall_timeout allows (120 s)", "logs", "launch.stall_min=240 ("),
    ("DiskFull", "the disk of /runs/x is full: 0.0 MiB are free", ".", "make room on that disk"),
    ("Stopped", "host 1 was interrupted", "hosts/end_1.node_1.json", "see on that host why"),
    ("Died", "msrun left with exit code 1 before its work was done", "logs/msrun.log", "read what it names from its end upwards"),
]


@pytest.mark.parametrize(("kind", "message", "log", "mend"), NO_RANK, ids=[each[0] for each in NO_RANK])
def test_a_failure_that_is_no_rank_s(kind: str, message: str, log: str, mend: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    told = RankError(rank=None, type=kind, message=message, log=str(path / log), time=0.0)
    config = {"launch": {"stall_min": 120.0}, "checkpoint": {"keep": 5, "save_steps": 10}}
    made = make(path, steps(30), outcome=Outcome(state="failed", exit_code=1, errors=(told,)), config=config)
    (found,) = diagnose(Recorded(made))
    assert found.cause == "failed" and found.what == f"the launch failed: {kind}: {message}"
    assert mend in found.mend and "that log" not in found.mend and "summary.json" in found.evidence
    assert ("checkpoint.keep=2" in found.mend) == (kind == "DiskFull")


def test_memory_that_a_launch_without_a_rank_ended_for(tmp_path: Path) -> None:
    """The rank that says so is the one that is named; a disk that is full is not for want of memory."""
    for kind, expected in (("Stalled", "out_of_memory"), ("Died", "out_of_memory"), ("DiskFull", "failed")):
        told = RankError(rank=None, type=kind, message="it did not end well", log="logs", time=0.0)
        path = make(tmp_path / kind, steps(30), outcome=Outcome(state="failed", exit_code=1, errors=(told,)))
        (path / "logs" / "rank_11.log").write_text("all well\nRuntimeError: Out of memory on the device\nfarewell\n")
        (found,) = diagnose(Recorded(path))
        assert found.cause == expected
        if expected == "out_of_memory":
            assert found.what.startswith("rank 11 ended") and found.evidence.startswith("logs/rank_11.log: ")
    told = RankError(rank=None, type="MemoryError", message="", log="logs/msrun.log", time=0.0)
    (found,) = diagnose(Recorded(make(tmp_path / "itself", steps(30), outcome=Outcome(state="failed", exit_code=1, errors=(told,)))))
    assert found.what.startswith("the launch ended because") and found.evidence.startswith("summary.json: errors: MemoryError")


def test_a_resumed_run_is_told_by_the_steps_it_has_reached(tmp_path: Path, mindrecipe: Callable[..., Any]) -> None:
    """Of 300 it made the last 100 itself: only these are in its directory."""
    own = [replace(record, step=record.step + 200) for record in steps(100)]
    resumed = make(tmp_path / "run", own, derived={"resume": {"checkpoint": "/a", "file": "x.ckpt", "step": 200}})
    assert mindrecipe("diagnose", str(resumed)).out.splitlines()[0].endswith("completed, 300 steps")
    assert dict(sheet.figures(Recorded(resumed)))["steps"].startswith("300 of ")
    (resumed / "summary.json").unlink()
    assert dict(sheet.figures(Recorded(resumed)))["steps"].startswith("300 of "), "one that was killed says so by its records"
    assert Recorded(make(tmp_path / "none", [])).reached == 0


def test_the_most_costly_first_and_every_override_is_one(tmp_path: Path, here: Path, mindrecipe: Callable[..., Any]) -> None:
    change = slower(0.3, "data_time")
    make(tmp_path / "run", [slower(0.1, "checkpoint_time")(change(record)) for record in steps(60)])
    done = mindrecipe("diagnose", str(tmp_path / "run"), "--json")
    told = json.loads(done.out)
    assert done.code == 1 and [each["cause"] for each in told] == ["data_bound", "checkpoint_stalls"]
    words = told[0]["mend"].partition(";")[0].split()
    composed, findings = compose_and_find(["+model=llama2_tiny", *words])
    assert not [finding for finding in findings if finding.severity == "error"] and composed.config.dataset.prefetch_size == 4
    plain = mindrecipe("diagnose", str(tmp_path / "run"))
    assert plain.code == 1 and plain.out.index("data_bound") < plain.out.index("checkpoint_stalls")
    healthy = make(tmp_path / "healthy", steps(60))
    assert mindrecipe("diagnose", str(healthy)).code == 0 and mindrecipe("diagnose", "nowhere").code == 2


def test_every_cause_is_known() -> None:
    assert set(causes()) == {
        "data_bound", "checkpoint_stalls", "host_bottleneck", "recompilation", "stalls", "noisy_machine", "drift", "low_mfu", "straggler",
        "compute_skew", "loss_oscillates", "communication_bound", "launch_bound", "memory_fragmented", "out_of_memory", "memory_near_limit", "loss_not_a_number", "loss_rises", "loss_flat", "loss_spikes", "overflow_streaks", "failed",
    }  # fmt: skip
