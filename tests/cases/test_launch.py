"""Public faults of launching, each by its number in the collection that they were taken from: ports, workers, hosts, words."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cases.words import LLAMA_7B, TEN_ROWS, TINY, accepted, refused, warned
from mends import quick, run_of
from mindrecipe.errors import UserError
from mindrecipe.execute import plan_of
from mindrecipe.freeze import to_yaml
from mindrecipe.launch import LaunchPlan, preflight
from mindrecipe.launch.commands import command_lines

pytestmark = pytest.mark.usefixtures("here")


def test_c01_scheduler_port_already_bound(here: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(UserError) as fault:
            preflight(LaunchPlan(run_dir=here / "r", devices_per_node=2, master_port=port))
    assert str(port) in fault.value.what and "launch.master_port=" in (fault.value.mend or "")
    assert list(here.iterdir()) == []


def test_c02_two_jobs_of_one_host_never_share_a_default_port() -> None:
    """Without a port one is chosen at each launch, and held: tests/launch/test_ports.py."""
    plan = plan_of(quick(*TINY, "parallel=data", "launch.workers=2"), Path("/r"))
    assert plan.master_port is None and plan.nodes == 1


def test_c04_each_rank_reads_its_share() -> None:
    derived = quick(*TINY, "parallel=data", "launch.workers=2", "dataset.batch_size=1").with_dataset(TEN_ROWS).derived
    assert (derived.steps_per_epoch, derived.batch.num_shards, derived.global_batch_size) == (5, 2, 2)


def test_c05_mesh_is_not_the_number_of_workers() -> None:
    found = refused(*LLAMA_7B, "parallel.data_parallel=4", "launch.workers=2", by="mesh.product", says="= 4, but device_num is 2")
    assert (found.mend or "").count("; or") >= 1
    refused(*LLAMA_7B, "parallel.data_parallel=1", "launch.workers=2", by="mesh.product", says="= 1, but device_num is 2")
    accepted(*TINY, "parallel=data", "launch.workers=2")
    accepted(*TINY)


def test_c07_one_worker_runs_locally() -> None:
    run = quick(*TINY, "launch=msrun", "launch.workers=1")
    assert plan_of(run, Path("/r")).is_local and command_lines(plan_of(run, Path("/r")))[0][0].endswith(("python", "python3", "python3.11"))


def test_sigterm_promises_a_checkpoint_only_where_one_is_saved() -> None:
    said = [plan_of(quick(*TINY, f"checkpoint={option}"), Path("/r")).saves for option in ("off", "final", "steps")]
    assert said == [False, True, True]


def test_c08_every_argument_of_msrun_is_written() -> None:
    for nodes in (1, 2):
        for line in command_lines(LaunchPlan(run_dir=Path("/r"), nodes=nodes, devices_per_node=2, node_rank=0, msrun=("msrun",))):
            names = {word.partition("=")[0] for word in line}
            assert {"--worker_num", "--local_worker_num", "--master_addr", "--master_port", "--node_rank", "--log_dir", "--join"} <= names


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)))
def test_c11_words_reach_the_ranks_as_they_were_typed(words: list[str]) -> None:
    """No shell and no eval stand between: ranks read the frozen file."""
    assert yaml.safe_load(to_yaml(words)) == words


@pytest.mark.parametrize("text", ['tags=["a b"]', "notes=[a$b,{p}]", 'name="a\\\\b"', 'name="数据"'])
def test_c11_overrides_are_frozen_element_by_element(text: str) -> None:
    if text.startswith("name"):
        text = text.replace("name", "run.name", 1)
    elif text.startswith("tags"):
        text = f"run.{text}"
    else:
        text = "run.tags=['a$b','{p}']"
    run = run_of(*TINY, text)
    assert yaml.safe_load(to_yaml(list(run.provenance.overrides))) == list(run.provenance.overrides)


def test_c13_node_rank_left_out(here: Path) -> None:
    with pytest.raises(UserError, match="without launch.node_rank"):
        preflight(LaunchPlan(run_dir=here / "r", nodes=2, devices_per_node=2, master_addr="127.0.0.2"))
    refused(*LLAMA_7B, "launch.nodes=2", "launch.master_addr=10.0.0.1", "launch.node_rank=2", by="launch.node_rank")


def test_c14_a_host_name_that_is_none(here: Path) -> None:
    with pytest.raises(UserError, match="no.such.host.invalid does not resolve"):
        preflight(LaunchPlan(run_dir=here / "r", devices_per_node=2, master_addr="no.such.host.invalid"))


def test_c16_hundreds_of_devices_need_longer() -> None:
    cluster = (*LLAMA_7B, "launch.nodes=32", "launch.master_addr=10.0.0.1", "parallel.optimizer_parallel=false")
    assert warned(*cluster, by="launch.cluster_time_out", says="256 devices").mend == "launch.cluster_time_out=900"
    accepted(*cluster, "launch.cluster_time_out=900")
