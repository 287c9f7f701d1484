"""The port of msrun's scheduler: found free, and kept from other launches until this one is over.

msrun's scheduler binds its port seconds after it was started, once mindspore is imported. A port that is free when we look can be
another launch's by then, and both jobs die. So a launch holds a name for its port, an abstract Unix socket: the kernel gives
it to one process only, and takes it back whatever ends that process. It lives in the network namespace, as ports do.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
from types import TracebackType

import psutil

from mindrecipe.derive.surroundings import is_bound
from mindrecipe.errors import UserError

# Below Linux's range of ephemeral ports (32768..): an outgoing connection can't take one of these by chance.
FREE_RANGE = range(20000, 32000)
_TRIES = 200


class PortReservation:
    """Holds ``port`` of this host among all launches, as a context or between ``take`` and ``release``."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._held = False
        self._socket: socket.socket | None = None

    def __enter__(self) -> PortReservation:
        if not (self._held or self.take()):
            raise port_in_use(self.port)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def take(self) -> bool:
        """Whether the port is now ours: no process listens on it, and no other launch is about to."""
        if is_bound(self.port):
            return False
        if sys.platform == "linux":  # no abstract sockets elsewhere: there only ports that are bound already are seen
            name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                name.bind(_name(self.port))
            except OSError:
                name.close()
                return False
            name.listen(8)
            self._socket = name
        self._held = True
        return True

    def release(self) -> None:
        """Give the port back."""
        self._held = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def reserve_free() -> PortReservation:
    """A port that nobody uses or is about to use, held."""
    for port in random.sample(FREE_RANGE, _TRIES):
        reservation = PortReservation(port)
        if reservation.take():
            return reservation
    raise UserError(f"no free port found among {_TRIES} of {FREE_RANGE.start}..{FREE_RANGE.stop}", mend="launch.master_port=<a free port>")


def free_port() -> int:
    """A port that nobody uses now, to propose."""
    with reserve_free() as reservation:
        return reservation.port


def port_in_use(port: int) -> UserError:
    """The fault, with the process that has the port where it can be told."""
    pid = listener(port) or reserver(port)
    by = "" if pid is None else f" by process {pid}{_named(pid)}"
    return UserError(
        f"port {port} of this host is in use{by}",
        where=f"launch.master_port={port}",
        mend=f"launch.master_port={free_port()}, or on one host launch.master_port=null: a free one is chosen",
    )


def _named(pid: int) -> str:
    try:
        return f" ({psutil.Process(pid).name()})"
    except psutil.Error:
        return ""


def listener(port: int) -> int | None:
    """The process that listens on a TCP port, if we may know."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    return next((item.pid for item in connections if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == port), None)


def reserver(port: int) -> int | None:
    """The launch that holds a port, if one does."""
    if sys.platform != "linux":
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(_name(port))
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)


def _name(port: int) -> str:
    return f"\0mindrecipe-port-{port}"
