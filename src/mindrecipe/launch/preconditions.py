"""What can be known to fail before anything is written or started: ports, host names, disk, msrun."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
from collections.abc import Callable, Iterator

import psutil

from mindrecipe.derive.surroundings import existing_parent, in_the_way, resolve
from mindrecipe.errors import UserError, UserErrors
from mindrecipe.launch.commands import find_msrun
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.ports import PortReservation, port_in_use

DISK_RESERVE = 1 << 30  # logs, metrics, MindSpore's own files: below this a run ends in errors that don't speak of disks


def preflight(plan: LaunchPlan, *, starts: bool = True) -> None:
    """Raise UserError (several at once as UserErrors) for what would make this launch fail. Writes nothing, starts nothing.

    ``starts`` False: only the run directory is made here, and which host of the job this is does not matter.
    """
    checks: list[Callable[[LaunchPlan], Iterator[UserError]]] = [_disk]
    through_msrun = starts and not plan.is_local
    if through_msrun:
        checks += [_msrun, _hosts]
    faults = [fault for check in checks for fault in check(plan)]
    if not faults and through_msrun:
        faults = list(_port(plan))
    if faults:
        raise faults[0] if len(faults) == 1 else UserErrors(faults)


def _disk(plan: LaunchPlan) -> Iterator[UserError]:
    folder, obstacle = existing_parent(plan.run_dir), in_the_way(plan.run_dir)
    if obstacle:
        yield UserError(obstacle, where=f"run directory {plan.run_dir}", mend="run.root=<another folder>, or take away what is there")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield UserError(f"{folder} can't be written to", where=f"run directory {plan.run_dir}", mend="run.dir=<a folder of yours>")
        return
    free, need = shutil.disk_usage(folder).free, DISK_RESERVE + plan.disk_need
    if free < need:
        yield UserError(
            f"{free / 2**30:.2f} GiB are free on the file system of {folder}, the run needs {need / 2**30:.2f} GiB",
            where=f"run directory {plan.run_dir}",
            mend="run.root=<a folder on a larger disk>, a smaller checkpoint.keep, or free some space",
        )


def _msrun(plan: LaunchPlan) -> Iterator[UserError]:
    if not plan.msrun and find_msrun() is None:
        yield UserError(f"msrun, which starts {plan.ranks} ranks, is missing: it comes with mindspore", mend="pip install mindspore==2.9.0")


def _hosts(plan: LaunchPlan) -> Iterator[UserError]:
    """The master's name resolves, and is this host exactly when this host is node 0: only there msrun starts its scheduler."""
    if plan.nodes > 1 and plan.node_rank is None:
        yield UserError(
            f"launch.nodes={plan.nodes} without launch.node_rank: ranks would learn who they are only after their data was built",
            where="launch.node_rank=null",
            mend=f"launch.node_rank=0 on the first host, up to launch.node_rank={plan.nodes - 1} on the last",
        )
    if plan.node_rank is not None and plan.node_rank >= plan.nodes:
        most = f"launch.node_rank={plan.nodes - 1} at the most"
        yield UserError(f"launch.node_rank={plan.node_rank} with launch.nodes={plan.nodes}", mend=most)
    where = f"launch.master_addr={plan.master_addr}"
    try:
        address = resolve(plan.master_addr)
    except OSError as error:
        why = error.strerror or error
        yield UserError(f"the host name {plan.master_addr} does not resolve ({why})", where=where, mend="launch.master_addr=<IP address>")
        return
    if plan.nodes == 1 or plan.node_rank is None:
        if plan.nodes == 1 and not is_own(address):
            what = f"{plan.master_addr} is not an address of this host, the only one"
            yield UserError(what, where=where, mend="launch.master_addr=127.0.0.1")
        return
    if address.is_loopback:
        yield UserError(f"other hosts can't reach {plan.master_addr}", where=where, mend="launch.master_addr=<address of the first host>")
    elif is_own(address) and plan.node_rank > 0:
        yield UserError(
            f"this host has the first host's address {plan.master_addr}, but launch.node_rank={plan.node_rank}: two schedulers would start",
            where=where,
            mend="launch.node_rank=0 here, or launch.master_addr=<address of the first host>",
        )
    elif not is_own(address) and plan.node_rank == 0:
        yield UserError(
            f"this host is the first (launch.node_rank=0) but has no address {plan.master_addr}: no scheduler would start",
            where=where,
            mend=f"launch.master_addr=<one of {', '.join(own_addresses())}>",
        )


def _port(plan: LaunchPlan) -> Iterator[UserError]:
    """The scheduler runs on the first host only; a port that was left open on one host is chosen at the launch."""
    if plan.node > 0 or (plan.nodes == 1 and plan.master_port is None):
        return
    reservation = PortReservation(plan.port)
    if reservation.take():
        reservation.release()
    else:
        yield port_in_use(plan.port)


def own_addresses() -> list[str]:
    """The addresses of this host's interfaces, those that others can reach first."""
    interfaces = psutil.net_if_addrs().values()
    families = (socket.AF_INET, socket.AF_INET6)
    found = [item.address.split("%")[0] for items in interfaces for item in items if item.family in families]
    return sorted(found, key=lambda text: (ipaddress.ip_address(text).is_loopback, ipaddress.ip_address(text).is_link_local))


def is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an interface of this host has the address (all of 127.0.0.0/8 is everyone's own)."""
    return address.is_loopback or str(address) in own_addresses()
