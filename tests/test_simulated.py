"""From a run to what there is to simulate of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindrecipe.derive.machine import Machine
from mindrecipe.errors import UserError
from mindrecipe.lower import Place
from mindrecipe.run import Run
from mindrecipe.simulated import job_of, made_up_data, pool_bytes

HERE = Machine(npu=None, npu_count=0, memory_bytes=1 << 34, cores=2)
WORDS = ["+model=llama2_7b", "parallel=semi_auto", "amp=O2", "launch=simulate"]


def _run(*words: str) -> Run:
    return Run.from_overrides([*WORDS, *words], machine=HERE)


def test_the_job_of_a_run() -> None:
    run = _run("parallel.model_parallel=4", "parallel.pipeline_stage=2", "parallel.micro_batch_num=4", "launch.nodes=2")
    job = job_of(run, Path("/run"))
    assert (job.device_num, job.stages, job.ranks, job.soc) == (16, 2, (0, 8), "Ascend910B1")
    assert job.limit == 57 << 30
    assert [finding for finding in run.check() if finding.severity == "error"] == []  # a loopback address and no node_rank do not matter


def test_without_a_sharded_graph_one_rank_is_all_there_is() -> None:
    run = Run.from_overrides(["+model=llama2_tiny", "parallel=data", "launch=simulate", "launch.devices_per_node=8"], machine=HERE)
    assert job_of(run, Path("/run")).ranks == (0,)


def test_a_device_without_a_dry_run_is_refused() -> None:
    run = Run.from_overrides(["+model=llama2_tiny", "launch=simulate", "device=cpu"], machine=HERE)
    assert "launch.simulate" in [finding.rule for finding in run.check() if finding.severity == "error"]
    with pytest.raises(UserError, match="is for cpu"):
        job_of(run, Path("/run")).require_possible()


@pytest.mark.parametrize("words", [(), ("schedule.total_steps=7",), ("parallel.full_batch=false",), ("dataset.batch_size=3",)])
def test_made_up_data_is_one_epoch(words: tuple[str, ...]) -> None:
    run = _run(*words)
    known = run.with_dataset(made_up_data(run.derived))
    assert known.derived.steps_per_epoch == known.derived.total_steps == (7 if words and "total_steps" in words[0] else 1000)
    assert known.lower(Place(output_dir="/run", train_files=known.derived.dataset.train_files))["runner_config"]["epochs"] == 1  # type: ignore[union-attr]


def test_sizes_of_pools() -> None:
    assert pool_bytes("57GB") == 57 << 30
    assert pool_bytes("0.50GB") == 1 << 29
    assert pool_bytes(None) is None
