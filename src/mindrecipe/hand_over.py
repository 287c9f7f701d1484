"""A run that is started elsewhere: on the hosts of launch=ssh, or in a Slurm job. Each of them runs `train` with the same words."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mindrecipe.config.keys import knobs
from mindrecipe.config.search_path import config_dir
from mindrecipe.derive.surroundings import resolve
from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.freeze import choose_dir
from mindrecipe.launch import slurm, ssh
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.view import View
from mindrecipe.paths import shipped

if TYPE_CHECKING:
    from mindrecipe.run import Run

_OURS = {"launch", "launch.mode", "launch.hosts", "launch.submit", "launch.sbatch_args", "launch.nodes", "launch.node_rank", "run.dir"}
_OURS |= {"launch.master_addr", "launch.devices_per_node", "launch.workers", "launch.dry_run", "checkpoint.resume"}
_TRAIN = "from mindrecipe.cli.train import main; main()"


def hand_over(run: Run, view: View) -> Outcome:
    """Start ``run`` as launch.mode says, or only write or print what would (launch.submit=false, launch.dry_run=true)."""
    return _slurm(run, view) if run.derived.config.launch.mode == "slurm" else _ssh(run, view)


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
    master = launch.hosts[0].rpartition("@")[2] if launch.hosts else launch.master_addr
    for node in range(launch.nodes):
        yield f"# on {launch.hosts[node] if launch.hosts else f'host {node} of {launch.nodes}'}"
        where = ["--nodes", str(launch.nodes), "--node-rank", str(node), "--master-addr", master]
        yield shlex.join([str(scripts / "msrun_node.sh"), *where, *words])


def _command(run: Run, resume: str) -> tuple[str, ...]:
    """`train` for every node, in this Python, with what all nodes must have in common; resumed as ``resume`` says."""
    launch = run.derived.config.launch
    kept = [word for word in run.provenance.overrides if word.lstrip("+").partition("=")[0] not in _OURS]
    words = [*kept, f"run.dir={_directory(run)}", f"launch.nodes={launch.nodes}", f"launch.devices_per_node={launch.devices_per_node}"]
    folder = config_dir()
    flags = ["--config-dir", str(folder)] if folder is not None else []
    return ("env", "PYTHONSAFEPATH=1", sys.executable, "-c", _TRAIN, *words, "launch.mode=auto", f"checkpoint.resume={resume}", *flags)


def _directory(run: Run) -> Path:
    given = run.derived.config.run.dir
    return Path(given).expanduser().absolute() if given is not None else choose_dir(run.derived)


def _slurm(run: Run, view: View) -> Outcome:
    config = run.derived.config
    name = config.run.name or "run"
    folder = Path(config.run.root).expanduser().absolute() / "slurm"
    resume = "auto" if config.checkpoint.resume == "never" else config.checkpoint.resume  # a requeued job must get on
    job = slurm.SlurmJob(
        name=name,
        nodes=config.launch.nodes,
        folder=Path.cwd(),
        logs=folder,
        command=_command(run, resume),
        args=tuple(config.launch.sbatch_args),
    )
    if config.launch.dry_run:
        for line in ("# dry run: nothing was written or submitted", *job.script().splitlines()):
            view.say(line)
        return Outcome(state="dry_run", exit_code=EXIT_OK)
    script = folder / f"{_directory(run).name}.sbatch"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        script.write_text(job.script(), encoding="utf-8")
    except OSError as fault:
        raise UserError(f"can't write {script}: {fault.strerror}", mend="run.root=<a folder of yours>") from fault
    view.say(f"written: {script}")
    view.say(slurm.submit(script) if config.launch.submit else f"to submit it: {shlex.join(['sbatch', str(script)])}")
    return Outcome(state="completed", exit_code=EXIT_OK)


def _ssh(run: Run, view: View) -> Outcome:
    config = run.derived.config
    hosts = tuple(config.launch.hosts)
    for host in hosts:
        name = host.rpartition("@")[2]
        try:
            resolve(name)
        except OSError as fault:
            raise UserError(
                f"the host name {name} does not resolve", where=f"launch.hosts=[{','.join(hosts)}]", mend="an address"
            ) from fault
    master = str(resolve(hosts[0].rpartition("@")[2])) if len(hosts) > 1 else config.launch.master_addr
    command = (*_command(run, config.checkpoint.resume), f"launch.master_addr={master}")
    job = ssh.SshJob(hosts=hosts, folder=Path.cwd(), command=command, grace=config.launch.stop_grace + 10)
    if config.launch.dry_run:
        view.say("# dry run: nothing was started")
        for node in range(len(hosts)):
            view.say(shlex.join(job.line(node)))
        return Outcome(state="dry_run", exit_code=EXIT_OK)
    return ssh.run(job, view)
