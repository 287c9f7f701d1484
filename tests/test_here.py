"""What this machine must bring for a run: here, a rank table that fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mends import LARGE, MACHINE, TINY, quick
from mindrecipe.errors import UserError, UserErrors
from mindrecipe.here import require_here

NPUS = replace(MACHINE, npu="ascend_910b", npu_count=8)


def table(path: Path, ranks: int) -> Path:
    devices = [{"device_id": str(rank), "device_ip": f"10.0.0.{rank}", "rank_id": str(rank)} for rank in range(ranks)]
    path.write_text(json.dumps({"version": "1.0", "server_count": "1", "server_list": [{"server_id": "10.1.0.1", "device": devices}]}))
    return path


def check(path: Path) -> None:
    require_here(quick(*LARGE, f"launch.rank_table={path}").derived, NPUS, ())


@pytest.mark.parametrize("more", [(), ('rules.silence.environment.cores="it is fine"',)], ids=["told", "silenced"])
def test_more_threads_than_cores_are_refused_before_anything_is_written(here: Path, more: tuple[str, ...]) -> None:
    """A rank would end with MindSpore's ValueError, after the data set was built."""
    before = sorted(here.rglob("*"))
    with pytest.raises(UserError, match="this host has 2 cores") as refused:
        quick(TINY, "dataset.num_parallel_workers=3", *more).launch()
    assert not isinstance(refused.value, UserErrors) and refused.value.mend == "dataset.num_parallel_workers=2"
    assert refused.value.where == "command line: dataset.num_parallel_workers=3"
    assert sorted(here.rglob("*")) == before
    assert quick(*LARGE, "dataset.num_parallel_workers=64").check() == [], "which is no host of this machine's cores"


def test_a_rank_table_of_all_ranks_is_taken(tmp_path: Path) -> None:
    check(table(tmp_path / "table.json", 8))


def test_a_rank_table_that_can_not_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names 4 ranks, and the job has 8"):
        check(table(tmp_path / "table.json", 4))
    with pytest.raises(UserError, match="can't be read: No such file"):
        check(tmp_path / "nowhere.json")
    (tmp_path / "table.json").write_text("{")
    with pytest.raises(UserError, match="it is no JSON"):
        check(tmp_path / "table.json")
    (tmp_path / "table.json").write_text("[]")
    with pytest.raises(UserError, match="names 0 ranks"):
        check(tmp_path / "table.json")


def test_a_recipe_for_other_npus_is_refused_with_the_device_to_take() -> None:
    a3 = replace(MACHINE, npu="ascend_910c", npu_count=16)
    require_here(quick(*LARGE, "device=ascend_910c", "launch.devices_per_node=16").derived, a3, ())
    with pytest.raises(UserError, match="this machine has ascend_910c") as told:
        require_here(quick(*LARGE, "device=ascend_910b").derived, a3, ())
    assert told.value.mend == "device=ascend_910c"
    small = replace(MACHINE, npu="ascend_910b4", npu_count=8)
    require_here(quick(*LARGE, "device=ascend_910b4").derived, small, ())
    with pytest.raises(UserError, match="this machine has ascend_910b4"):
        require_here(quick(*LARGE, "device=ascend_910b").derived, small, ())
