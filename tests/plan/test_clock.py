"""Time: what must be monotone is, shares are shares, and peaks are never exceeded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from mindrecipe.models.hardware import CATALOGUE, REFERENCE
from mindrecipe.plan import clock, traffic
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.job import CannotPrice, Job, Recompute
from plan.jobs import JOB, NPU, jobs, laid


def step(job: Job) -> float:
    return clock.price(job, efficiency_of(job, "mindspeed")).step


@given(jobs())
def test_shares_and_peaks(job: Job) -> None:
    time = clock.price(job, efficiency_of(job, "mindspeed"))
    assert time.step == pytest.approx(sum(time.items.values())) and min(time.items.values()) >= 0
    assert 0 < time.mfu <= time.hfu < 1 and 0 <= time.bubble < 1
    assert time.tokens_per_s * time.step * job.layout.devices == pytest.approx(job.tokens_per_step)


@given(jobs())
def test_more_work_takes_longer(job: Job) -> None:
    again = replace(job, recompute=Recompute(policy="full"))
    assert step(again) >= step(replace(job, recompute=Recompute(policy="none")))
    assert step(laid(job, micro_batches=2 * job.layout.micro_batches)) > step(job)
    faster = replace(job, device=replace(job.device, peak_half_tflops=2 * (job.device.peak_half_tflops or 0)))
    assert step(faster) < step(job)


@given(jobs())
def test_the_bubble_is_narayanan_s(job: Job) -> None:
    p, v, m = job.layout.pipeline, job.layout.interleave, job.layout.micro_batches
    time = clock.price(job, efficiency_of(job, "mindspeed"))
    outside = {"pipeline bubble", "optimizer", "data parallel", "sharded weights"}
    ideal = sum(seconds for name, seconds in time.items.items() if name not in outside)
    assert time.items["pipeline bubble"] == pytest.approx(ideal * (p - 1) / (v * m))


def test_zero_bubble_waits_less() -> None:
    assert step(laid(schedule="zero_bubble_v")) < step(JOB)


def test_collectives_on_the_topology() -> None:
    size = 1e9
    inside, link = traffic.seconds(JOB, size, 8, 1)
    assert link == "node" and inside == pytest.approx(size * 7 / 8 / 196e9)
    across, link = traffic.seconds(JOB, size, 16, 1)
    assert link == "network" and across == pytest.approx(inside)  # the slower of the two levels: half of it over eight links is quicker
    spread, _ = traffic.seconds(JOB, size, 16, 8)
    assert spread == pytest.approx(size * 15 / 16 / 25e9)
    assert traffic.seconds(JOB, size, 1, 1) == (0.0, "none")


@pytest.mark.parametrize(
    "job, part",
    [
        (replace(JOB, compute="float32"), "float32"),
        (replace(JOB, device=CATALOGUE["cpu"]), "CPU"),
        (replace(JOB, compute="float8"), "float8"),
    ],
)
def test_what_nothing_was_published_for_is_refused(job: Job, part: str) -> None:
    with pytest.raises(CannotPrice, match=part):
        efficiency_of(job)


def test_every_device_has_figures_with_a_source() -> None:
    for device in (*CATALOGUE.values(), *REFERENCE.values()):
        assert device.source and device.series
        if device.target != "CPU":
            assert device.memory_gb and device.peak_half_tflops and device.memory_bandwidth
            assert device.node_bandwidth and device.network_bandwidth and device.node_bandwidth > device.network_bandwidth
            efficiency_of(replace(JOB, device=device, compute="float16"))
    assert {"ascend_910a", "ascend_910b1", "ascend_910b2", "ascend_910b3", "ascend_910b4", "ascend_910c"} <= set(CATALOGUE)
    assert {"a100_40gb", "a100_80gb", "h100_80gb", "h200", "v100_32gb"} <= set(REFERENCE)
    assert NPU.peak_tflops("float32") is None
