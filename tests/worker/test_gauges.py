"""Groups of parameters, update ratios, and samples of what a process uses: no mindspore needed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.measure.record import Usage
from mindrecipe.orphans import LAUNCHER
from mindrecipe.worker import evaluation, usage
from mindrecipe.worker.gauges import GroupNorms, UpdateRatio, group_of


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model.layers.3.attention.wq.weight", "layers.3"),
        ("decoder.layers.11.mlp.linear_fc1.weight", "layers.11"),
        ("model.tok_embeddings.embedding_weight", "tok_embeddings"),
        ("model.norm_out.weight", "norm_out"),
        ("lm_head.weight", "lm_head"),
        ("weight", "weight"),
    ],
)
def test_groups_are_layers_and_the_modules_outside_of_them(name: str, group: str) -> None:
    assert group_of(name) == group


def test_the_norm_of_a_group_is_that_of_all_its_parameters() -> None:
    names = ["model.layers.0.a.weight", "lm_head.weight", "model.layers.0.b.weight"]
    assert GroupNorms(names)(np.array([9.0, 4.0, 16.0], np.float32)) == {"layers.0": 5.0, "lm_head": 2.0}


class Weight:
    def __init__(self, *values: float) -> None:
        self.values = np.array(values, np.float32)

    def asnumpy(self) -> Any:
        return self.values


def test_the_update_ratio_is_that_of_every_nth_step() -> None:
    gauge, weights = UpdateRatio(3), [Weight(3.0, 0.0), Weight(4.0)]
    found = []
    for step in range(1, 8):
        weights[0].values[1] += 0.5
        found.append(gauge.after_step(step, weights))
    assert [step for step, ratio in enumerate(found, 1) if ratio is not None] == [3, 6]
    assert found[2] == pytest.approx(0.5 / np.sqrt(25 + 1.0**2))
    assert UpdateRatio(None).after_step(3, weights) is None


def test_a_sample_shows_a_busy_process() -> None:
    began, sampler = time.monotonic(), usage.Sampler(lambda _: None, 1.0, None)
    ends = time.process_time() + 0.3
    while time.process_time() < ends:
        pass
    sample = sampler.sample()
    least = 0.25 / (time.monotonic() - began)  # the kernel counts in hundredths of a second
    assert least < sample.cpu <= (os.cpu_count() or 1) and sample.host_cpu > 0 and sample.rss > 1e6 and sample.npu is None
    assert sampler.sample().time >= sample.time
    assert sample.host_cores == len(os.sched_getaffinity(0))


def stat(folder: Path, cores: dict[int, float]) -> Path:
    """/proc/stat of a host whose ``cores`` were busy for so many seconds, each idle for 1000 and waiting for a disk for 500."""
    tick = os.sysconf("SC_CLK_TCK")
    line = "{name} {user} 0 {system} {idle} {wait} 0 0 0 {guest} 0\n"
    told = [
        line.format(
            name=f"cpu{core}", user=int(busy * tick) - tick, system=tick, idle=1000 * tick, wait=500 * tick, guest=int(busy * tick) // 2
        )
        for core, busy in cores.items()
    ]
    whole = line.format(name="cpu ", user=99, system=99, idle=99, wait=99, guest=9)
    path = folder / "stat"
    path.write_text("".join([whole, *told, "intr 5 0 1 2\n", "ctxt 77\n"]))
    return path


@given(st.dictionaries(st.integers(0, 300), st.integers(1, 9999), min_size=1), st.data())
def test_the_busy_time_is_that_of_the_cores_that_count(
    tmp_path_factory: pytest.TempPathFactory, cores: dict[int, float], data: Any
) -> None:
    """Whatever others do on cores that the run may not use, and whichever are switched off."""
    listed = stat(tmp_path_factory.mktemp("proc"), cores)
    own = data.draw(st.sets(st.sampled_from(sorted(cores)), min_size=1))
    assert usage.busy_seconds(own, listed) == pytest.approx(sum(cores[core] for core in own))


def test_a_container_that_numbers_its_cores_anew_lists_its_own(tmp_path: Path) -> None:
    assert usage.busy_seconds({6, 7}, stat(tmp_path, {0: 10.0, 1: 20.0})) == pytest.approx(30.0)


def test_the_kernel_s_own_list_is_read() -> None:
    """What all cores have used is what psutil says of the whole host, which rounds once and not once a core."""

    def whole() -> float:
        times = psutil.cpu_times()
        return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice

    rounded = 0.05 * (os.cpu_count() or 1)
    before, allowed, found, after = whole(), usage.busy_seconds(os.sched_getaffinity(0)), usage.busy_seconds({-1}), whole()
    assert before - rounded < found < after + rounded and 0 < allowed <= found


def test_the_cores_are_those_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """msrun binds each rank to some of them; what the others of the job use is no neighbour's work."""
    allowed = {1: {3}, 0: {0, 1}, 4711: {0, 1, 2, 3}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: allowed[process])
    assert usage.cores_of_the_run() == {0, 1}
    monkeypatch.setenv(LAUNCHER, "4711")
    assert usage.cores_of_the_run() == {0, 1, 2, 3}


def test_an_evaluation_means_the_same_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 2 of 64 cores: the other 62 say nothing of it, and it is no share of them."""
    monkeypatch.setattr(usage, "cores_of_the_run", lambda: frozenset({4, 5}))
    asked, busy = [], iter([100.0, 115.0])
    monkeypatch.setattr(usage, "busy_seconds", lambda cores: asked.append(cores) or next(busy))
    began = time.process_time()
    used = evaluation._Usage("CPU").since(10.0)
    own = time.process_time() - began
    assert asked == [{4, 5}, {4, 5}] and 0.75 - own / 20 <= used["others"] <= 0.75


def test_the_thread_writes_by_itself() -> None:
    found: list[Usage] = []
    usage.Sampler(found.append, 0.05, None).start()
    ends = time.monotonic() + 200
    while len(found) < 2 and time.monotonic() < ends:
        time.sleep(0.02)
    assert len(found) >= 2


#: by the example of the npu-smi command reference for `info -t usages`; not taken from a machine
LISTING = """
        NPU ID                         : 3
        Chip Count                     : 1

        DDR Capacity(MB)               : 15171
        DDR Usage Rate(%)              : 4
        HBM Capacity(MB)               : 32768
        HBM Usage Rate(%)              : 91
        Aicore Usage Rate(%)           : 87
        Aicpu Usage Rate(%)            : 2
        Chip ID                        : 0
"""


def test_npu_use_from_the_documented_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert usage.use_in(LISTING) == 0.87 and usage.use_in("nothing") is None
    tool = tmp_path / "npu-smi"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "info -t usages -i 3" ] && cat <<X\n{LISTING}\nX\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert usage.Sampler(lambda _: None, 1.0, 3).sample().npu == 0.87
