"""The exact command lines: arguments reach a rank as they were given, and msrun gets every option that matters."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindrecipe.errors import UserError
from mindrecipe.launch import LaunchPlan, command_lines, dry_run, launch
from mindrecipe.launch.commands import find_msrun, python_name
from mindrecipe.launch.ports import reserve_free
from mindrecipe.launch.preconditions import own_addresses
from mindrecipe.measure.view import make_view

NASTY = [
    "",
    " ",
    "a b",
    "x=${seed}",
    "${HOME}",
    "$(touch no)",
    "`id`",
    "{p,q}=1",
    "[1,0]",
    "~callbacks",
    "+d={a:1}",
    'tag="a b"',
    "'q'",
    "back\\slash",
    "new\nline",
    "数据",
    "*",
    "#c",
    "a;b",
    "a|b",
    "--join",
    "-m",
]


def test_one_process_needs_no_msrun(plan: Callable[..., LaunchPlan], run_dir: Path) -> None:
    local = replace(plan(1), worker=("-m", "mindrecipe.worker"))
    assert command_lines(local) == [[sys.executable, "-m", "mindrecipe.worker", str(run_dir)]]


def test_the_line_for_several_ranks_on_one_host() -> None:
    line = LaunchPlan(run_dir=Path("/r"), devices_per_node=4, master_port=9000, cluster_time_out=77, msrun=("msrun",))
    assert command_lines(line) == [
        [
            "msrun", "--join=True", "--worker_num=4", "--local_worker_num=4", "--master_addr=127.0.0.1", "--master_port=9000",
            "--node_rank=0", "--log_dir=/r/logs", "--cluster_time_out=77", "--worker_log_name=rank", "--tail_worker_log=4",
            python_name() or "python", "-m", "mindrecipe.worker", "/r",
        ]
    ]  # fmt: skip


def test_each_host_has_a_line_of_its_own_that_differs_in_its_rank_only() -> None:
    lines = command_lines(
        LaunchPlan(run_dir=Path("/r"), nodes=3, devices_per_node=8, master_addr="10.0.0.1", node_rank=1, msrun=("msrun",))
    )
    assert [[word for word in line if word.startswith("--node_rank")] for line in lines] == [[f"--node_rank={node}"] for node in range(3)]
    assert {tuple(word for word in line if not word.startswith("--node_rank")) for line in lines} == {
        tuple(w for w in lines[0] if "node_rank" not in w)
    }
    assert "--worker_num=24" in lines[0]
    assert "--local_worker_num=8" in lines[0]
    assert "--master_port=8118" in lines[0]


def test_msrun_is_the_one_of_this_python() -> None:
    found = find_msrun()
    assert found is not None
    assert Path(found).parent == Path(sys.executable).parent


@pytest.mark.parametrize("ranks", [1, 2])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))), max_size=5
    )
)
def test_arguments_round_trip_through_a_shell_line(ranks: int, words: list[str]) -> None:
    line = LaunchPlan(run_dir=Path("/a b/$x"), devices_per_node=ranks, worker=tuple(words), msrun=("msrun",))
    said = list(dry_run.lines(replace(line, master_port=9000, env={"A": "b c", "GONE": None}), {"RANK_ID": "3", "GONE": "x"}))[-1]
    words = shlex.split(said)
    assert words[-len(command_lines(line)[0]) :] == command_lines(replace(line, master_port=9000))[0]
    assert words[:5] == ["env", "-u", "RANK_ID", "-u", "GONE"] and "A=b c" in words


@pytest.mark.parametrize("ranks", [1, 2])
def test_arguments_reach_every_rank_as_they_are(plan: Callable[..., LaunchPlan], tmp_path: Path, ranks: int) -> None:
    """Through the (fake) msrun, element by element."""
    echo = tmp_path / "echo.py"
    echo.write_text(
        "import json, os, sys\nopen(f\"{sys.argv[1]}/argv_{os.environ.get('RANK_ID', 0)}\", 'w').write(json.dumps(sys.argv[2:]))\n"
    )
    asked = replace(plan(ranks), worker=(str(echo), str(tmp_path), *NASTY))
    asked.files.logs.mkdir()
    line = command_lines(asked)[0]
    from mindrecipe.launch.environment import rank_environment

    subprocess.run(line, env=rank_environment(asked, "test"), check=True, timeout=60)
    for rank in range(ranks):
        assert json.loads((tmp_path / f"argv_{rank}").read_text()) == [*NASTY, str(asked.run_dir)]


def test_a_dry_run_checks_and_prints_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with reserve_free() as free:
        port = free.port
    asked = LaunchPlan(run_dir=tmp_path / "not made", nodes=2, devices_per_node=4, node_rank=0, dry_run=True, master_port=port)
    with pytest.raises(UserError, match="does not resolve"):
        launch(replace(asked, master_addr="no.such.host.invalid"), make_view("quiet"))
    here = next(address for address in own_addresses() if not address.startswith("127.") and address != "::1")
    outcome = launch(replace(asked, master_addr=here, env={"A": "b c"}), make_view("quiet"))
    assert (outcome.state, outcome.exit_code) == ("dry_run", 0)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("# host")] == ["# host 0 of 2 (this one)", "# host 1 of 2"]
    assert "A=b c" in shlex.split(lines[-1]) and "--node_rank=1" in lines[-1]
    assert not asked.run_dir.exists()
