"""Profiles summed up: operators, scopes, steps, memory and links, of a CPU and of an Ascend; told on a terminal and in the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import profile_samples
import pytest
from runs import make, steps

from mindrecipe.judge.profile import first_profile, operators, profiles
from mindrecipe.judge.profile.files import folders
from mindrecipe.judge.profile.told import largest, matrix
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.report.page import page
from mindrecipe.judge.report.plain import as_json, markdown
from mindrecipe.judge.report.sheet import sheet


def run_in(folder: Path, first: int = 5, last: int = 7) -> Path:
    return make(folder / "run", steps(30), config={"profile": {"enabled": True, "start": first, "stop": last}})


def test_a_cpu_profile(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    profile_samples.cpu(run)
    found = first_profile(Recorded(run))
    assert found is not None and (found.rank, found.executions) == (0, 5)
    assert [(step.seconds, step.idle) for step in found.steps] == [(pytest.approx(1e-3, rel=1e-3), pytest.approx(0.1, abs=1e-3))] * 3
    assert found.gap == pytest.approx(200e-6, rel=1e-2) and found.steps[-1].gap is None and found.idle == pytest.approx(0.1, abs=1e-3)
    assert [(each.kind, each.count) for each in found.operators] == [("MatMul", 3.0), ("Mul", 2.0)]
    assert found.operators[0].seconds == pytest.approx(700e-6) and found.operators[0].share == pytest.approx(7 / 9)
    assert found.scopes == pytest.approx(
        {"layers/attention": 6 / 9, "optimizer": 1.5 / 9, "backward: layers/attention": 1 / 9, "expanded operators": 0.5 / 9}
    )
    assert found.memory is not None and found.memory.allocated == 96_000_000 and found.memory.reserved is None
    assert found.memory.fragmentation is None and found.memory.curve[0] == (0.0, 4096.0) and len(found.memory.curve) == 3
    assert found.communication is None and found.links == []


def test_an_ascend_profile(tmp_path: Path) -> None:
    run = run_in(tmp_path, 5, 6)
    profile_samples.kernels(run, took=100.0, every=120.0)
    profile_samples.pool(run, allocated=40.0, reserved=50.0)
    profile_samples.trace(run, [(5, 7000.0, 3000.0, 500.0), (6, 7000.0, 3000.0, 500.0)])
    profile_samples.matrix(run)
    found = first_profile(Recorded(run))
    assert found is not None and len(found.steps) == 2 and found.executions == 40
    assert found.steps[0].idle == pytest.approx(1 - 4000 / 4780) and found.gap == pytest.approx(520e-6, rel=1e-3)
    assert {each.kind for each in found.operators} == {"MatMulV2", "Mul"} and [*found.scopes] == ["layers/attention"]
    memory = found.memory
    assert memory is not None and memory.allocated == pytest.approx(40 * 2**30) and memory.reserved == pytest.approx(50 * 2**30)
    assert memory.fragmentation == pytest.approx(0.2)
    held = [(each.name, each.size, each.seconds) for each in memory.largest]
    assert held == [("Default/MatMul-op1", 8192 * 1024, 2e-3), ("weight", 4096 * 1024, None), ("Default/Mul-op1", 16 * 1024, 1e-6)]
    assert found.communication is not None and found.communication.exposed_share == pytest.approx(6000 / 21000)
    links = {(link.source, link.target): (link.transport, link.megabytes, link.gigabytes_per_s) for link in found.links}
    assert links == {("0", "1"): ("HCCS", 200.0, 25.0), ("0", "8"): ("RDMA", 100.0, 10.0), ("8", "0"): ("RDMA", 20.0, 10.0)}
    assert matrix(found) == {"0": [None, 200.0, 100.0], "1": [None, None, None], "8": [20.0, None, None]}


def test_the_newest_profile_of_each_rank(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    profile_samples.cpu(run, made="20250101000000000")
    again = profile_samples.cpu(run, made="20250102000000000")
    third = profile_samples.folder(run, rank=3)
    assert folders(run) == {0: again, 3: third}
    assert [each.rank for each in profiles(Recorded(run))] == [0, 3] and [each.rank for each in profiles(Recorded(run), 3)] == [3]
    assert first_profile(Recorded(make(tmp_path / "none", steps(5)))) is None


def test_steps_that_nothing_marks_are_one_stretch() -> None:
    ran = [operators.Execution(f"Default/Mul-op{number}", "Mul", number * 1e-3, 5e-4) for number in range(6)]
    assert len(operators.by_step(ran, 4)) == 1 and operators.by_step([], 4) == []
    twice = [*ran, *(operators.Execution(each.name, each.kind, each.start + 1, each.took) for each in ran)]
    assert [len(part) for part in operators.by_step(twice, 2)] == [6, 6]


def test_operators_of_several_streams_are_not_counted_twice() -> None:
    side_by_side = [
        operators.Execution("a", "a", 0.0, 1.0),
        operators.Execution("b", "b", 0.5, 1.0),
        operators.Execution("c", "c", 3.0, 1.0),
    ]
    (step,) = operators.steps_of([side_by_side])
    assert step.seconds == 4.0 and step.idle == pytest.approx(1.5 / 4)


def test_what_disturbs_a_step_is_left_out() -> None:
    """Another operator of each step is held up, or comes late: no step shows it, all of them together do."""
    usual = [operators.Execution(name, "Mul", start, 1.0) for name, start in (("a", 0.0), ("b", 2.0), ("c", 4.0))]
    held = [replace(usual[0], took=6.0), replace(usual[1], start=7.0), replace(usual[2], start=9.0)]
    late = [usual[0], replace(usual[1], start=9.0), replace(usual[2], start=20.0, took=3.0)]
    found = operators.undisturbed([held, late])
    assert (found.busy, found.idle, found.operator) == (pytest.approx(3.0), pytest.approx(2.0), 1.0) and found.idle_share == pytest.approx(
        0.4
    )
    assert operators.undisturbed([late, usual[:2]]).operator == 1.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Default/network-X/model-Y/layers-CellList/3-Layer/attention-A/rope-R/Mul-op1", "layers/attention"),
        ("Gradients/Default/network-X/loss-L/_log_softmax-S/Grad_Mul/Mul-op7", "backward: loss"),
        ("Default/Mul-op2", "outside of cells"),
        ("Expand/_SiLU/Mul-op2", "expanded operators"),
        ("aclnnMatmul_MatMulV3", "outside of cells"),
    ],
)
def test_scopes(name: str, expected: str) -> None:
    assert operators.scope(name) == expected


def test_small_shares_are_put_together() -> None:
    assert largest({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}, 2) == pytest.approx({"a": 0.5, "b": 0.3, "others": 0.2})
    assert largest({"a": 1.0}) == {"a": 1.0}


def test_the_command_tells_what_there_is(tmp_path: Path, here: Path, mindrecipe: Callable[..., Any]) -> None:
    run = run_in(tmp_path)
    profile_samples.cpu(run)
    done = mindrecipe("profile", str(run), "--top", "1")
    assert done.code == 0 and "MatMul\t3\t0.7 ms\t77.8 %" in done.out and "optimizer" not in done.out and "10.0 % of a step" in done.out
    (told,) = json.loads(mindrecipe("profile", str(run), "--json").out)
    assert told["idle"] == pytest.approx(0.1, abs=1e-3) and told["memory"]["fragmentation"] is None and len(told["steps"]) == 3
    wrong = mindrecipe("profile", str(run), "--rank", "2")
    assert wrong.code == 2 and "rank 2 was not profiled" in wrong.err and "--rank 0" in wrong.err
    bare = mindrecipe("profile", str(make(tmp_path / "bare", steps(5))))
    assert bare.code == 2 and "has no profile" in bare.err and "profile=steps" in bare.err


def test_the_report_shows_it(tmp_path: Path) -> None:
    run = run_in(tmp_path, 5, 6)
    profile_samples.kernels(run, took=100.0, every=120.0)
    profile_samples.pool(run, allocated=40.0, reserved=50.0)
    profile_samples.matrix(run)
    content = sheet([Recorded(run)])
    text = page(content)
    for word in (
        "the profile of rank 0",
        "MatMulV2",
        "layers/attention",
        "memory while it was profiled",
        "HCCS",
        "to the end",
        "links: what went",
    ):
        assert word in text
    assert "## Profile of" in markdown(content) and "| MatMulV2 | 20 |" in markdown(content)
    told = json.loads(as_json(content))["runs"][0]["profile"]
    assert told["memory"]["fragmentation"] == pytest.approx(0.2) and told["operators"][0]["kind"] in ("Mul", "MatMulV2")
    assert "profile" not in page(sheet([Recorded(make(tmp_path / "bare", steps(30)))])).partition("<details>")[0]
