"""Every cause on recorded metrics: just above its threshold it is named, just below it is not; a healthy run has none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import profile_samples
import pytest
from runs import make, steps, usage

from mindrecipe.config.compose import compose_and_find
from mindrecipe.judge.diagnosis import diagnose
from mindrecipe.judge.diagnosis.registry import causes
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, RankStep, StepRecord

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


def test_overflows(tmp_path: Path) -> None:
    often: Change = lambda record: replace(record, overflow=record.step % 10 == 0, loss_scale=1024.0)  # noqa: E731
    searching: Change = lambda record: replace(record, overflow=record.step < 6)  # noqa: E731
    assert named(tmp_path / "often", often) == ["overflow_streaks"]
    assert named(tmp_path / "searching", searching) == []


def test_memory(tmp_path: Path) -> None:
    near: Change = lambda record: replace(record, memory_bytes=int(0.95 * 2**34))  # noqa: E731
    assert named(tmp_path / "near", near) == ["memory_near_limit"]
    npu = {"derived": {"device_target": "Ascend"}, "config": {"memory": {"max_device_memory": "58GB"}}}
    assert named(tmp_path / "npu", lambda record: replace(record, memory_bytes=57 * 2**30), **npu) == ["memory_near_limit"]
    told = RankError(rank=0, type="RuntimeError", message="std::bad_alloc", log="logs/rank_0.log", time=0.0)
    assert named(tmp_path / "out", count=3, outcome=Outcome(state="failed", exit_code=1, errors=(told,))) == ["out_of_memory"]


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
        "communication_bound", "launch_bound", "memory_fragmented", "out_of_memory", "memory_near_limit", "loss_not_a_number", "loss_rises", "loss_flat", "loss_spikes", "overflow_streaks", "failed",
    }  # fmt: skip
