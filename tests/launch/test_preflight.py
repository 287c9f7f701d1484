"""What is refused before anything is written or started: each fault with its mend, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindrecipe.derive.surroundings import existing_parent
from mindrecipe.errors import UserError, UserErrors
from mindrecipe.launch import LaunchPlan, preflight
from mindrecipe.launch.ports import free_port
from mindrecipe.launch.preconditions import own_addresses

OWN = next((address for address in own_addresses() if not address.startswith(("127.", "::1")) and ":" not in address), None)


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path: Path) -> Iterator[None]:
    yield
    assert {path.name for path in tmp_path.iterdir()} <= {"a run 数据 $HOME {p,q}=1"}


def refused(**options: object) -> UserError:
    with pytest.raises(UserError) as found:
        preflight(LaunchPlan(**options))  # type: ignore[arg-type]
    assert found.value.exit_code == 2
    assert found.value.mend or isinstance(found.value, UserErrors)
    return found.value


def test_what_is_right_passes(tmp_path: Path) -> None:
    preflight(LaunchPlan(run_dir=tmp_path / "not" / "there" / "yet"))
    preflight(LaunchPlan(run_dir=tmp_path / "r", devices_per_node=2))


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"port {port} of this host is in use" in str(refused(run_dir=tmp_path / "r", devices_per_node=2, master_port=port))
        preflight(LaunchPlan(run_dir=tmp_path / "r", devices_per_node=1, master_port=port))


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_host_name_that_does_not_resolve(tmp_path: Path, nodes: int) -> None:
    fault = refused(run_dir=tmp_path / "r", nodes=nodes, devices_per_node=2, node_rank=0, master_addr="no.such.host.invalid")
    assert "no.such.host.invalid does not resolve" in str(fault)


def test_several_hosts_need_a_node_rank(tmp_path: Path) -> None:
    fault = refused(run_dir=tmp_path / "r", nodes=2, devices_per_node=2, master_addr=OWN or "127.0.0.1")
    assert "without launch.node_rank" in str(fault)


def test_a_loopback_address_is_no_use_to_others(tmp_path: Path) -> None:
    assert "other hosts can't reach 127.0.0.1" in str(refused(run_dir=tmp_path / "r", nodes=2, node_rank=0))


@pytest.mark.skipif(OWN is None, reason="this machine has no address but loopback")
def test_the_first_host_is_the_one_with_the_address(tmp_path: Path) -> None:
    assert "two schedulers would start" in str(refused(run_dir=tmp_path / "r", nodes=2, node_rank=1, master_addr=OWN))
    preflight(LaunchPlan(run_dir=tmp_path / "r", nodes=2, node_rank=0, master_addr=OWN or "", master_port=free_port()))


def test_a_first_host_without_the_address_would_wait_for_ever(tmp_path: Path) -> None:
    fault = refused(run_dir=tmp_path / "r", nodes=2, node_rank=0, master_addr="192.0.2.1")
    assert "no scheduler would start" in str(fault)
    preflight(LaunchPlan(run_dir=tmp_path / "r", nodes=2, node_rank=1, master_addr="192.0.2.1"))


def test_a_foreign_address_on_a_single_host(tmp_path: Path) -> None:
    assert "not an address of this host" in str(refused(run_dir=tmp_path / "r", devices_per_node=2, master_addr="192.0.2.1"))


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    assert "GiB are free" in str(refused(run_dir=tmp_path / "r", disk_need=usage.total))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100 << 20))
    assert "0.10 GiB are free" in str(refused(run_dir=tmp_path / "a" / "b"))


def test_a_folder_that_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # to root every folder is its own
    assert f"{tmp_path} can't be written to" in str(refused(run_dir=tmp_path / "r"))


def test_msrun_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindrecipe.launch.preconditions.find_msrun", lambda: None)
    assert "pip install mindspore" in str(refused(run_dir=tmp_path / "r", devices_per_node=2))
    preflight(LaunchPlan(run_dir=tmp_path / "r", devices_per_node=1))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    fault = refused(run_dir=tmp_path / "r", nodes=2, master_addr="no.such.host.invalid", disk_need=1 << 60)
    assert isinstance(fault, UserErrors)
    assert len(fault.faults) == 3


def test_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert existing_parent(tmp_path / "a" / "b") == tmp_path
    assert existing_parent(Path("relative")) == Path.cwd()


@pytest.mark.parametrize("name", ["r", "runs/r"])
def test_what_is_in_the_way_of_the_run_directory(tmp_path: Path, name: str) -> None:
    obstacle = tmp_path / name.partition("/")[0]
    obstacle.symlink_to(tmp_path / "nowhere")
    fault = refused(run_dir=tmp_path / name)
    assert fault.what == f"{obstacle} is a link to {tmp_path / 'nowhere'}, which is not there"
    obstacle.unlink()
    obstacle.write_text("")
    assert refused(run_dir=tmp_path / name).what == f"{obstacle} is no folder"
    obstacle.unlink()
    preflight(LaunchPlan(run_dir=tmp_path / name))
