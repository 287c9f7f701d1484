"""Groups of parameters, update ratios, and samples of what a process uses: no mindspore needed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindrecipe.measure.record import Usage
from mindrecipe.worker import usage
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
