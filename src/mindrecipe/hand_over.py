"""A run that is started elsewhere: on the hosts of launch=ssh, or in a Slurm job. Each of them runs `train` with the same words."""

from __future__ import annotations

import ipaddress
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mindrecipe.config.keys import knobs
from mindrecipe.config.overrides import plain
from mindrecipe.config.search_path import config_dir
from mindrecipe.derive.surroundings import resolve
from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.freeze import choose_dir, numbered
from mindrecipe.launch import slurm, ssh
from mindrecipe.launch.preconditions import own_addresses
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.view import View
from mindrecipe.paths import shipped
from mindrecipe.resume import decide
from mindrecipe.runfiles import HANDED_OVER

if TYPE_CHECKING:
    from mindrecipe.run import Run

_OURS = {"launch", "launch.mode", "launch.hosts", "launch.submit", "launch.sbatch_args", "launch.nodes", "launch.node_rank", "run.dir"}
_OURS |= {"launch.master_addr", "launch.devices_per_node", "launch.workers", "launch.dry_run", "checkpoint.resume"}
_TRAIN = "from mindrecipe.cli.train import main; main()"
_WORDS = ("never", "auto", "must")


def hand_over(run: Run, view: View) -> Outcome:
    """Start ``run`` as launch.mode says, or only write or print what would (launch.submit=false, launch.dry_run=true)."""
    place = _place(run)
    if place.finished is not None:
        view.say(place.finished)
        return Outcome(state="completed", exit_code=EXIT_OK, notes=(place.finished,))
    return _slurm(run, place, view) if run.derived.config.launch.mode == "slurm" else _ssh(run, place, view)


def by_hand(run: Run, path: Path) -> Iterator[str]:
    """launch.freeze_only: the command lines that start the run directory ``path``, one a host, and what to know of them."""
    launch, scripts = run.derived.config.launch, shipped("scripts")
    words = ["--run-dir", str(path), "--python", sys.executable]
    if launch.master_port is not None:
        words += ["--port", str(launch.master_port)]
    if launch.cluster_time_out != knobs()["launch.cluster_time_out"].default:
        words += ["--timeout", str(launch.cluster_time_out)]
    yield f"# run directory, not started: {path}"
    if launch.mode == "slurm":
        yield shlex.join(["sbatch", f"--nodes={launch.nodes}", *launch.sbatch_args, str(scripts / "slurm.sbatch"), *words])
        return
    if launch.nodes == 1:
        yield shlex.join([str(scripts / "msrun_local.sh"), *words])
        return
    master = _master(launch.hosts) if launch.hosts else launch.master_addr
    for node in range(launch.nodes):
        yield f"# on {launch.hosts[node] if launch.hosts else f'host {node} of {launch.nodes}'}"
        where = ["--nodes", str(launch.nodes), "--node-rank", str(node), "--master-addr", master]
        yield shlex.join([str(scripts / "msrun_node.sh"), *where, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The run directory of all hosts, what they are to resume, and whether there is nothing to do (what to tell then)."""

    directory: Path
    resume: str
    finished: str | None = None


def _place(run: Run) -> _Place:
    """What each host is told, so that all mean the same, also when the job is started again.

    Hosts are given a run.dir, and look for earlier runs beside it only: "the runs of that name" are looked at here. A Slurm job that starts
    from a named place gets a run directory of its own, which tells a first start from a later one; one that starts from scratch is refused
    a run.dir that is there, as its script, which is to get on when it is requeued, would go on from it.
    """
    config = run.derived.config
    resume = config.checkpoint.resume
    given = Path(config.run.dir).expanduser().absolute() if config.run.dir is not None else None
    if given is not None and (resume in ("auto", "must") or config.launch.mode == "ssh"):
        return _Place(directory=given, resume=resume)
    if resume == "never" or not (resume in _WORDS or resume.isdigit()):
        return _Place(directory=choose_dir(run.derived), resume=resume)
    start = decide(run.derived)
    directory = choose_dir(run.derived) if given is None else numbered(given)
    if resume in _WORDS and run.derived.total_steps is None and start.continues is not None:
        # whether it is finished is known once its data is built
        return _Place(directory=start.continues, resume=resume)
    if start.finished is not None and start.evaluates:  # the node that gets this directory makes the evaluation that is missing
        return _Place(directory=start.finished, resume="auto")
    if start.finished is not None:
        return _Place(directory=start.finished, resume=resume, finished="; ".join(start.said))
    return _Place(directory=directory, resume=str(start.resume.path) if start.resume is not None else resume)


def _command(run: Run, place: _Place) -> tuple[str, ...]:
    """`train` for every node, in this Python, with what all nodes must have in common but for checkpoint.resume."""
    launch = run.derived.config.launch
    kept = [word for word in run.provenance.overrides if word.lstrip("+").partition("=")[0] not in _OURS]
    kept += [
        f"run.dir={plain(str(place.directory))}",
        f"launch.nodes={launch.nodes}",
        f"launch.devices_per_node={launch.devices_per_node}",
    ]
    folder = config_dir()
    flags = ["--config-dir", str(folder)] if folder is not None else []
    environ = ("env", "PYTHONSAFEPATH=1", f"{HANDED_OVER}={json.dumps(run.provenance.overrides)}")
    return (*environ, sys.executable, "-c", _TRAIN, *flags, *kept, "launch.mode=auto")


def _slurm(run: Run, place: _Place, view: View) -> Outcome:
    config = run.derived.config
    name = config.run.name or "run"
    folder = Path(config.run.root).expanduser().absolute() / "slurm"
    again = place.resume if place.resume in ("auto", "must") else "auto"  # a requeued job must get on
    named = f"checkpoint.resume={plain(place.resume)}" if place.resume not in _WORDS else None
    job = slurm.SlurmJob(
        name=name,
        nodes=config.launch.nodes,
        folder=Path.cwd(),
        logs=folder,
        command=_command(run, place),
        resume=f"checkpoint.resume={again}",
        first=(named, place.directory) if named is not None else None,
        args=tuple(config.launch.sbatch_args),
    )
    if config.launch.dry_run:
        for line in ("# dry run: nothing was written or submitted", *job.script().splitlines()):
            view.say(line)
        return Outcome(state="dry_run", exit_code=EXIT_OK)
    script = folder / f"{place.directory.name}.sbatch"
    text = job.script()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        script.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UserError(f"can't write {script}: {fault.strerror}", mend="run.root=<a folder of yours>") from fault
    view.say(f"written: {script}")
    view.say(slurm.submit(script) if config.launch.submit else f"to submit it: {shlex.join(['sbatch', str(script)])}")
    return Outcome(state="completed", exit_code=EXIT_OK)


def _ssh(run: Run, place: _Place, view: View) -> Outcome:
    config = run.derived.config
    hosts = tuple(config.launch.hosts)
    for host in hosts:
        _address(host, hosts)
    master = _master(hosts) if len(hosts) > 1 else config.launch.master_addr
    command = (*_command(run, place), f"checkpoint.resume={plain(place.resume)}", f"launch.master_addr={plain(master)}")
    job = ssh.SshJob(hosts=hosts, folder=Path.cwd(), command=command, grace=config.launch.stop_grace + 10)
    if config.launch.dry_run:
        view.say("# dry run: nothing was started")
        for node in range(len(hosts)):
            view.say(shlex.join(job.line(node)))
        return Outcome(state="dry_run", exit_code=EXIT_OK)
    return ssh.run(job, view)


def _address(host: str, hosts: Sequence[str]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of one of launch.hosts, for this host. UserError where it has none."""
    name = host.rpartition("@")[2]
    try:
        return resolve(name)
    except OSError as fault:
        raise UserError(f"the host name {name} does not resolve", where=f"launch.hosts=[{','.join(hosts)}]", mend="an address") from fault


def _master(hosts: Sequence[str]) -> str:
    """The address at which the others reach the first of ``hosts``. UserError where it has none.

    /etc/hosts may map this host's own name to a loopback address (Debian: 127.0.1.1): then it is one of its interfaces.
    """
    address = _address(hosts[0], hosts)
    if not address.is_loopback:
        return str(address)
    own = [each for each in map(ipaddress.ip_address, own_addresses()) if not (each.is_loopback or each.is_link_local)]
    if not own:
        raise UserError(
            f"{hosts[0]} is {address} for this host, where other hosts can't reach it, and no interface of this host has another address",
            where=f"launch.hosts=[{','.join(hosts)}]",
            mend=f"launch.hosts=[{','.join(['<its address>', *hosts[1:]])}]",
        )
    return str(min(own, key=lambda each: each.version))
