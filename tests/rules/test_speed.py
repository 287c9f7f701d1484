"""All rules on a recipe of 10,240 devices take less than 50 ms, whatever is wrong with it."""

from __future__ import annotations

import time

import pytest

from mends import quick

CLUSTER = (
    "+model=llama2_70b", "parallel=semi_auto", "amp=O2", "launch.nodes=1280", "launch.master_addr=10.0.0.1",
    "launch.cluster_time_out=1800", "parallel.model_parallel=8", "parallel.pipeline_stage=8", "parallel.micro_batch_num=64",
)  # fmt: skip


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("more", [(), ("parallel.data_parallel=77",), ("native.context.save_graphs=true", "native.seed=3")])
def test_ten_thousand_devices(more: tuple[str, ...]) -> None:
    run = quick(*CLUSTER, *more)
    assert run.derived.device_num == 10240
    took = []
    for _ in range(7):
        began = time.process_time()
        run.check()
        took.append(time.process_time() - began)
    assert min(took) < 0.05
