"""Rules of hosts and processes that need no look at the network (launch/ looks at that)."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator

from mindrecipe.config.overrides import quoted
from mindrecipe.derive import Derived
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule

#: options of msrun that the launcher sets -> the knob they are
_OWN_OPTIONS = {
    "--join": None,
    "--log_dir": None,
    "--worker_log_name": None,
    "--tail_worker_log": None,
    "--worker_num": "launch.nodes times launch.devices_per_node",
    "--local_worker_num": "launch.devices_per_node",
    "--master_addr": "launch.master_addr",
    "--master_port": "launch.master_port",
    "--node_rank": "launch.node_rank",
    "--cluster_time_out": "launch.cluster_time_out",
    "--bind_core": "launch.bind_core",
    "--rank_table_file": "launch.rank_table",
    "--sim_level": "launch=simulate",
    "--sim_rank_id": "launch.simulate_ranks",
}


@rule(
    "launch.workers",
    "error",
    "`workers` is short for one node with so many devices",
    outcome="differs",
    source="config/schema/operation.py",
    reads="launch: devices_per_node nodes workers",
    fails=[
        f"{TINY} parallel=data launch.workers=2 launch.nodes=2 launch.master_addr=10.0.0.1",
        f"{TINY} parallel=data launch.workers=2 launch.devices_per_node=4",
    ],
    passes=[
        f"{TINY} parallel=data launch.nodes=2 launch.master_addr=10.0.0.1 launch.workers=null launch.devices_per_node=2",
        f"{TINY} parallel=data launch.devices_per_node=null launch.workers=2",
    ],
)
def workers(d: Derived) -> Iterator[Problem]:
    """Short and long spellings of the device count disagree."""
    launch = d.config.launch
    if launch.workers is None:
        return
    if launch.nodes > 1:
        yield Problem(
            f"launch.workers={launch.workers} with launch.nodes={launch.nodes}",
            ("launch.workers", "launch.nodes"),
            f"launch.workers=null launch.devices_per_node={launch.workers}",
        )
    elif launch.devices_per_node != launch.workers:
        yield Problem(
            f"launch.workers={launch.workers} and launch.devices_per_node={launch.devices_per_node} differ",
            ("launch.workers", "launch.devices_per_node"),
            f"launch.devices_per_node=null launch.workers={launch.workers}",
        )


@rule(
    "launch.mode",
    "error",
    "one process can't be several ranks",
    outcome="stops",
    source="launch/start.py",
    reads="launch: mode",
    fails=[f"{TINY} parallel=data launch=local launch.workers=2"],
    passes=[f"{TINY} parallel=data launch.workers=2 launch=msrun"],
)
def mode(d: Derived) -> Iterator[Problem]:
    """Several ranks are to run as one process."""
    if d.config.launch.mode == "local" and d.device_num > 1:
        yield Problem(f"launch=local with {d.device_num} devices", ("launch.mode",), "launch=msrun")


@rule(
    "launch.simulate",
    "error",
    "MindSpore's dry run is of Ascend devices",
    outcome="stops",
    source="mindspore communication/management.py (dryrun)",
    reads="device: name; launch: mode",
    fails=[f"{TINY} launch=simulate device=cpu"],
    passes=[f"{LARGE} launch=simulate"],
)
def simulate(d: Derived) -> Iterator[Problem]:
    """A run on CPU is to be simulated."""
    if d.config.launch.mode == "simulate" and d.hardware.target == "CPU":
        yield Problem(f"launch=simulate with device={d.config.device.name}", ("device.name", "launch.mode"), "device=ascend_910b")


@rule(
    "launch.master_addr",
    "error",
    "other hosts can't reach a loopback address",
    outcome="stops",
    source="mindspore parallel/cluster/run.py: the scheduler listens at master_addr",
    reads="launch: hosts master_addr mode nodes",
    fails=[
        f"{LARGE} launch.nodes=2",
        f"{LARGE} launch.nodes=2 launch.master_addr=localhost",
        f"{TINY} launch=ssh launch.hosts=[localhost,b] parallel=data launch.devices_per_node=1",
    ],
    passes=[f"{LARGE} launch.nodes=2 launch=simulate", f"{LARGE} launch.nodes=2 launch.master_addr=host-0"],
)
def master_addr(d: Derived) -> Iterator[Problem]:
    """Several hosts are to meet at an address that only the first can reach."""
    launch = d.config.launch
    if launch.nodes < 2 or launch.mode in ("simulate", "slurm") or not _is_loopback(launch.master_addr):
        return
    if launch.mode == "ssh":
        mend = shlex.quote(f"launch.hosts=[{','.join(['<its address>', *launch.hosts[1:]])}]")
        yield Problem(f"the first of launch.hosts is {launch.hosts[0]}", ("launch.hosts",), mend)
    else:
        yield Problem(
            f"launch.master_addr={launch.master_addr} with launch.nodes={launch.nodes}",
            ("launch.master_addr", "launch.nodes"),
            "launch.master_addr=<address of the first host>",
        )


@rule(
    "launch.node_rank",
    "error",
    "ranks are numbered host by host",
    outcome="stops",
    source="MindSpore documentation, msrun: node_rank",
    reads="launch: node_rank nodes",
    fails=[f"{TINY} launch.node_rank=1"],
    passes=[f"{TINY} launch.node_rank=0"],
)
def node_rank(d: Derived) -> Iterator[Problem]:
    """A host's number is not below the number of hosts."""
    launch = d.config.launch
    if launch.node_rank is not None and launch.node_rank >= launch.nodes:
        yield Problem(
            f"launch.node_rank={launch.node_rank} with launch.nodes={launch.nodes}",
            ("launch.node_rank", "launch.nodes"),
            f"launch.node_rank={launch.nodes - 1}",
        )


@rule(
    "launch.cluster_time_out",
    "warning",
    "hundreds of ranks need longer to meet: MindSpore advises 900 to 1800 s above 128 devices",
    outcome="stops",
    source="MindSpore FAQ, distributed parallel (time-out of the unique id)",
    reads="launch: cluster_time_out",
    fails=[f"{LARGE} launch.nodes=32 launch.master_addr=10.0.0.1"],
    passes=[
        f"{LARGE} launch.nodes=32 launch.master_addr=10.0.0.1 launch.cluster_time_out=900",
        f"{LARGE} launch.nodes=16 launch.master_addr=10.0.0.1",
    ],
)
def cluster_time_out(d: Derived) -> Iterator[Problem]:
    """More than 128 devices have less than 900 s to find each other."""
    given = d.config.launch.cluster_time_out
    if d.device_num > 128 and given < 900:
        yield Problem(
            f"launch.cluster_time_out={given} with {d.device_num} devices",
            ("launch.cluster_time_out", "launch.nodes"),
            "launch.cluster_time_out=900",
        )


@rule(
    "launch.env",
    "error",
    "an environment variable is a text, and null unsets it",
    outcome="stops",
    source="POSIX, environ",
    reads="launch: env",
    fails=[f"{TINY} launch.env.A=[1]"],
    passes=[f"{TINY} launch.env.A=null", f"""{TINY} 'launch.env.A="[1]"'""", f"""{TINY} 'launch.env.A=""'"""],
)
def env(d: Derived) -> Iterator[Problem]:
    """An environment variable is no text or number."""
    for name, value in d.config.launch.env.items():
        if value is not None and not isinstance(value, str | int | float):
            yield Problem(
                f"launch.env.{name}={value!r} is none",
                (f"launch.env.{name}", "launch.env"),
                shlex.quote(f"launch.env.{name}={quoted(str(value))}"),
            )


@rule(
    "launch.hosts",
    "error",
    "ssh starts the command once on each host",
    outcome="stops",
    source="mindrecipe launch/ssh.py",
    reads="launch: hosts mode nodes",
    fails=[f"{TINY} launch=ssh", f"{TINY} launch=ssh launch.hosts=[a,a] parallel=data launch.devices_per_node=1"],
    passes=[f"{TINY} launch=ssh launch.hosts=[a,b] parallel=data launch.devices_per_node=1"],
)
def hosts(d: Derived) -> Iterator[Problem]:
    """launch=ssh has no hosts, one of them twice, or not one for each node."""
    launch = d.config.launch
    if launch.mode == "ssh" and not launch.hosts:
        yield Problem("launch=ssh without launch.hosts", ("launch.mode", "launch.hosts"), "launch=auto")
    elif launch.mode == "ssh" and launch.nodes != len(launch.hosts):
        keys = ("launch.nodes", "launch.hosts")
        yield Problem(f"launch.nodes={launch.nodes} and {len(launch.hosts)} hosts", keys, f"launch.nodes={len(launch.hosts)}")
    elif launch.mode == "ssh" and len(set(launch.hosts)) < len(launch.hosts):
        once = list(dict.fromkeys(launch.hosts))
        twice = next(host for host in once if launch.hosts.count(host) > 1)
        yield Problem(
            f"launch.hosts names {twice} more than once: its ranks would want the same devices and the same port",
            ("launch.hosts",),
            f"{shlex.quote('launch.hosts=[' + ','.join(once) + ']')} launch.nodes={len(once)}",
        )


@rule(
    "launch.msrun_args",
    "error",
    "msrun takes the last of two, and the launcher relies on its own",
    outcome="stops",
    source="mindspore parallel/cluster/run.py get_args; mindrecipe launch/commands.py",
    reads="launch: msrun_args",
    fails=[
        f"""{TINY} parallel=data launch.workers=2 'launch.msrun_args=["--join=False"]'""",
        f"""{TINY} parallel=data launch.workers=2 'launch.msrun_args=["--bind_core=True"]'""",
    ],
    passes=[f"""{TINY} parallel=data launch.workers=2 'launch.msrun_args=["--bind_numa=True"]'"""],
)
def msrun_args(d: Derived) -> Iterator[Problem]:
    """An option of msrun is passed through that the launcher sets itself."""
    for word in d.config.launch.msrun_args:
        name = word.partition("=")[0]
        if name in _OWN_OPTIONS:
            knob = _OWN_OPTIONS[name]
            kept = [each for each in d.config.launch.msrun_args if each != word]
            without = shlex.quote(f"launch.msrun_args=[{','.join(map(quoted, kept))}]")
            yield Problem(f"launch.msrun_args: {word}, which is {knob or 'never otherwise'}", ("launch.msrun_args",), without)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
