"""The scheduler's port: seen in use, by whom, and never given to two launches."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mindrecipe.derive.surroundings import is_bound
from mindrecipe.errors import UserError
from mindrecipe.launch.ports import FREE_RANGE, PortReservation, free_port, listener, reserve_free, reserver


@pytest.fixture
def held() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use_is_refused_with_its_holder_and_a_free_one(held: int) -> None:
    assert is_bound(held)
    assert listener(held) == os.getpid()
    with pytest.raises(UserError) as refused, PortReservation(held):
        pass
    assert f"port {held} of this host is in use by process {os.getpid()}" in str(refused.value)
    proposed = int(str(refused.value.mend).split("=")[1].split(",")[0])
    assert proposed in FREE_RANGE
    assert not is_bound(proposed)


def test_a_port_in_use_on_ipv6_only_is_seen() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        assert is_bound(server.getsockname()[1])


def test_a_port_of_closed_connections_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = server.accept()
        served.close()
        client.close()
    assert not is_bound(port)


def test_two_launches_never_hold_one_port() -> None:
    port = free_port()
    with PortReservation(port):
        assert reserver(port) == os.getpid()
        assert not PortReservation(port).take()
        with pytest.raises(UserError, match=f"port {port} of this host is in use by process {os.getpid()}"), PortReservation(port):
            pass
    with PortReservation(port):
        pass


def test_a_launch_that_is_killed_gives_its_port_back() -> None:
    port = free_port()
    code = "import sys, time\nfrom mindrecipe.launch.ports import PortReservation\nheld = PortReservation(int(sys.argv[1]))\n"
    code += "held.take()\nprint(1, flush=True)\ntime.sleep(60)\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.Popen([sys.executable, "-c", code, str(port)], stdout=subprocess.PIPE, env=environment)
    assert other.stdout is not None
    assert other.stdout.readline() == b"1\n"
    assert reserver(port) == other.pid
    assert not PortReservation(port).take()
    other.kill()
    other.wait()
    with PortReservation(port):
        pass


def test_free_ports_are_all_different_while_held() -> None:
    held = [reserve_free() for _ in range(50)]
    assert len({reservation.port for reservation in held}) == 50
    for reservation in held:
        reservation.release()
