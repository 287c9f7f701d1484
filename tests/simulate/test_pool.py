"""Ranks that are simulated: at once, kept, failing, stopped. The ranks are fakes."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from mindrecipe.launch.signals import StopSignals
from mindrecipe.simulate.job import Job
from mindrecipe.simulate.pool import Failed, Interrupted, Pool
from mindrecipe.simulate.process import environment
from mindrecipe.simulate.report import RankReport
from mindrecipe.simulate.standin import StandIn

FAKE = str(Path(__file__).with_name("fake_rank.py"))


def _job(tmp_path: Path, *, fake: str = "", at_once: int | None = 2, asked: str = "0-3", fresh: bool = False) -> Job:
    run = tmp_path / "run"
    (run / "logs").mkdir(parents=True, exist_ok=True)
    (run / "mindformers.yaml").write_text(f"output_dir: {run}\n")
    return Job(
        run_dir=run, title="t", device="ascend_910b", device_num=8, stages=2, asked=asked, at_once=at_once, limit=None,
        cache=tmp_path / "cache", env={"FAKE": fake}, fresh=fresh, worker=(FAKE,),
    )  # fmt: skip


def _run(job: Job, signals: StopSignals | None = None) -> tuple[tuple[RankReport, ...], list[RankReport]]:
    told: list[RankReport] = []
    pool = Pool(job, StandIn(Path("/nowhere/cann")), "2.9.0", told.append, lambda _: None)
    return pool.run(signals or StopSignals()), told


def _starts(job: Job) -> list[list[str]]:
    path = job.run_dir / "started"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_ranks_come_back_in_order_with_their_stage(tmp_path: Path) -> None:
    reports, told = _run(_job(tmp_path, asked="0,3,4"))
    assert [(each.rank, each.stage) for each in reports] == [(0, 0), (3, 0), (4, 1)]
    assert {each.rank for each in told} == {0, 3, 4}
    assert not any(each.reused for each in reports)


def test_what_was_simulated_is_kept_and_not_done_again(tmp_path: Path) -> None:
    _run(_job(tmp_path, asked="0,1"))
    again, _ = _run(_job(tmp_path, asked="0-2"))
    assert [each.reused for each in again] == [True, True, False]
    assert len(_starts(_job(tmp_path))) == 3
    fresh, _ = _run(_job(tmp_path, asked="0", fresh=True))
    assert not fresh[0].reused


def test_of_the_user_s_own_code_nothing_is_kept(tmp_path: Path) -> None:
    job = replace(_job(tmp_path, asked="0,1"), imports=("my_parts",))
    for _ in range(2):
        reports, _ = _run(job)
        assert not any(each.reused for each in reports)
    assert len(_starts(job)) == 4 and not list(tmp_path.rglob("cache/*"))


def test_a_variable_that_is_null_is_unset(tmp_path: Path) -> None:
    job = replace(_job(tmp_path), env={"GONE": None, "MINE": 1})
    given = environment(job, 0, StandIn(Path("/nowhere/cann")), "id", {"GONE": "x", "KEPT": "y", "MINE": "2"})
    assert "GONE" not in given and given["KEPT"] == "y" and given["MINE"] == "1"


def test_another_configuration_is_simulated_anew(tmp_path: Path) -> None:
    first = _job(tmp_path)
    before = first.kept(0, "2.9.0")
    assert first.kept(0, "2.10.0") != before
    (first.run_dir / "mindformers.yaml").write_text(f"output_dir: {first.run_dir}\nseed: 1\n")
    assert first.kept(0, "2.9.0") != before


def test_no_more_at_once_than_asked_for(tmp_path: Path) -> None:
    job = _job(tmp_path, at_once=1, asked="0-2")
    _run(job)
    times = [float(start[1]) for start in _starts(job)]
    assert all(later - earlier > 0.3 for earlier, later in pairwise(times))


def test_a_rank_that_raises_ends_the_others_and_says_why(tmp_path: Path) -> None:
    job = _job(tmp_path, fake="raise 1", asked="0-3", at_once=4)
    with pytest.raises(Failed) as failed:
        _run(job)
    assert failed.value.error.rank == 1
    assert "num_moe_experts" in failed.value.error.message
    assert not any(psutil.pid_exists(int(pid)) for _, _, pid in _starts(job) if int(pid) != os.getpid())


def test_a_rank_that_is_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        _run(_job(tmp_path, fake="die 0", asked="0"))
    assert "SIGKILL" in failed.value.error.message


def test_a_signal_stops_all_ranks(tmp_path: Path) -> None:
    signals = StopSignals()
    job = _job(tmp_path, fake="hang", asked="0,1")
    told: list[RankReport] = []
    pool = Pool(job, StandIn(Path("/nowhere/cann")), "2.9.0", told.append, lambda _: signals.received.append(15) if _starts(job) else None)
    with pytest.raises(Interrupted):
        pool.run(signals)
    assert not any(psutil.pid_exists(int(pid)) for _, _, pid in _starts(job))
