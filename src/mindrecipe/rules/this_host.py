"""Rules of what a run names and this host lacks. Warnings, since a recipe may be checked far from its cluster; `train` refuses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mindrecipe.config.findings import Finding
from mindrecipe.derive import Derived
from mindrecipe.derive.checkpoint_size import checkpoint_bytes
from mindrecipe.rules.native import section
from mindrecipe.rules.registry import LARGE, TINY, Example, Problem, rule

_CORES = "environment.cores"
_OF_THIS_HOST = ("environment.paths", "environment.modules", "environment.port", "environment.host_name", "environment.disk", _CORES)
_ELSEWHERE = ("ssh", "slurm", "simulate")  # launch modes whose ranks read no data on this host
_HERE = "this host"


def of_the_run(findings: Iterable[Finding]) -> list[Finding]:
    """``findings`` without those of this host: for what starts nothing here, and for `train`, which finds them out as errors, with more
    words, before it starts anything.
    """
    return [finding for finding in findings if finding.rule not in _OF_THIS_HOST]


def would_stop_a_rank(findings: Iterable[Finding]) -> list[Finding]:
    """Those of ``findings`` that only a rank would find out as well, as errors: for a run that starts on this host."""
    return [replace(finding, severity="error") for finding in findings if finding.rule == _CORES]


@rule(
    "environment.paths",
    "warning",
    "a run that starts here finds nothing there",
    outcome="stops",
    source="data/sources.py, resume.py",
    reads="checkpoint: load resume; dataset: files heldout_files source tokenizer",
    fails=[
        Example(f"{TINY} dataset=text 'dataset.files=[/data/*.txt]'", lacks=("/data/*.txt",)),
        Example(f"{TINY} checkpoint.resume=/old/run", lacks=("/old/run",)),
        Example(f"{TINY} dataset.tokenizer=/data/tokenizer.json", lacks=("/data/tokenizer.json",)),
    ],
    passes=[TINY, f"{TINY} dataset=text 'dataset.files=[/data/*.txt]'"],
)
def paths(d: Derived) -> Iterator[Problem]:
    """A file or folder that the run names is not on this host."""
    data, checkpoint = d.config.dataset, d.config.checkpoint
    named = [("dataset.files", path) for path in data.files] + [("dataset.heldout_files", path) for path in data.heldout_files]
    if data.source != "native" and data.tokenizer not in ("bpe", "bytes"):
        named.append(("dataset.tokenizer", data.tokenizer))
    if checkpoint.resume not in ("never", "auto", "must") and not checkpoint.resume.isdigit():
        named.append(("checkpoint.resume", checkpoint.resume))
    if checkpoint.load is not None:
        named.append(("checkpoint.load", checkpoint.load))
    for key, path in named:
        if not d.machine.surroundings.has(path):
            yield Problem(f"{key}: there is no {path} on {_HERE}", (key,), f"{key}=<what is there>; or run it where it is")


@rule(
    "environment.modules",
    "warning",
    "a rank that starts here can't import it",
    outcome="stops",
    source="worker/load.py user_modules",
    reads="run: imports",
    fails=[Example(f"{TINY} run.imports=[my_package.parts]", lacks=("my_package.parts",))],
    passes=[f"{TINY} run.imports=[my_package.parts]"],
)
def modules(d: Derived) -> Iterator[Problem]:
    """A module of run.imports is not found on this host."""
    for name in d.config.run.imports:
        if not d.machine.surroundings.has_module(name):
            mend = "run.imports=<modules of this folder, of PYTHONPATH or installed>"
            yield Problem(f"run.imports: there is no module {name} on {_HERE}", ("run.imports",), mend)


@rule(
    "environment.port",
    "warning",
    "msrun's scheduler could not listen there",
    outcome="stops",
    source="launch/ports.py",
    reads="launch: master_port mode node_rank",
    fails=[Example(f"{TINY} parallel=data launch.workers=2 launch.master_port=8118", lacks=("8118",))],
    passes=[f"{TINY} parallel=data launch.workers=2 launch.master_port=8118"],
)
def port(d: Derived) -> Iterator[Problem]:
    """The scheduler's port is in use on this host."""
    launch = d.config.launch
    first = d.device_num > 1 and launch.mode in ("auto", "msrun", "local") and launch.node_rank in (None, 0)
    if first and launch.master_port is not None and d.machine.surroundings.listens(launch.master_port):
        yield Problem(
            f"launch.master_port={launch.master_port}: a process of {_HERE} listens there",
            ("launch.master_port",),
            "launch.master_port=<a free port>; on one host null: a free one is chosen",
        )


@rule(
    "environment.host_name",
    "warning",
    "no rank of this host would find the first host",
    outcome="stops",
    source="run: msrun ends with 'DNS resolution has failed'",
    reads="launch: master_addr mode nodes",
    fails=[Example(f"{LARGE} launch.nodes=2 launch.master_addr=hostt-0", lacks=("hostt-0",), npu="ascend_910b")],
    passes=[Example(f"{LARGE} launch.nodes=2 launch.master_addr=hostt-0", lacks=("hostt-0",))],
)
def host_name(d: Derived) -> Iterator[Problem]:
    """The first host's name has no address, as seen from a host of the cluster."""
    launch = d.config.launch
    told = launch.nodes > 1 and launch.mode not in ("simulate", "slurm") and d.is_for_this_machine
    if told and not d.machine.surroundings.knows(launch.master_addr):
        key = "launch.master_addr"
        yield Problem(f"{key}={launch.master_addr} is not known to {_HERE}", (key,), f"{key}=<a name or an IP address of the first host>")


@rule(
    "environment.disk",
    "warning",
    "a checkpoint that does not fit ends the run",
    outcome="stops",
    source="launch/preconditions.py; derive/checkpoint_size.py",
    reads="*",
    fails=[Example(f"{TINY} checkpoint.keep=20 checkpoint.save_steps=10", room=1 << 20)],
    passes=[TINY, Example(f"{TINY} checkpoint.keep=20 checkpoint.save_steps=10", room=1 << 40)],
)
def disk(d: Derived) -> Iterator[Problem]:
    """The checkpoints to come need more than the disk has."""
    config = d.config
    free = d.machine.surroundings.room(config.run.dir or config.run.root) if d.is_for_this_machine else None
    need = checkpoint_bytes(d)
    if free is not None and free < need:
        yield Problem(
            f"checkpoint.keep={config.checkpoint.keep}: checkpoints of {need / 2**30:.2f} GiB are to come, {free / 2**30:.2f} GiB are free",
            ("checkpoint.keep", "run.root"),
            "checkpoint.keep=<fewer>, or run.root=<a folder on a larger disk>",
        )


@rule(
    _CORES,
    "warning",
    "MindSpore refuses more threads of one operator than the host has cores, whichever of them a process may use",
    outcome="stops",
    source="run: num_parallel_workers exceeds the boundary between 1 and 2 (mindspore dataset/core/validator_helpers.py: cpu_count)",
    reads="dataset: num_parallel_workers; launch: mode; native",
    fails=[
        Example(f"{TINY} dataset.num_parallel_workers=3", cpu_count=2),
        Example(f"{TINY} native.train_dataset.data_loader.num_parallel_workers=3", cpu_count=2),
        Example(f"{LARGE} dataset.num_parallel_workers=200", npu="ascend_910b", cpu_count=192),
    ],
    passes=[
        Example(f"{TINY} dataset.num_parallel_workers=2", cpu_count=2),
        Example(f"{LARGE} dataset.num_parallel_workers=64", cpu_count=2),
        Example(f"{TINY} dataset.num_parallel_workers=64 launch=slurm", cpu_count=2),
    ],
)
def cores(d: Derived) -> Iterator[Problem]:
    """More threads are to read and batch than this host has cores."""
    most = d.machine.cpu_count if d.is_for_this_machine else None
    if most is None or d.config.launch.mode in _ELSEWHERE:
        return
    native = section(d.config.native, "train_dataset")
    given = {"dataset.num_parallel_workers": d.config.dataset.num_parallel_workers}
    if "num_parallel_workers" in native:
        given = {"native.train_dataset.num_parallel_workers": native["num_parallel_workers"]}
    given["native.train_dataset.data_loader.num_parallel_workers"] = section(native, "data_loader").get("num_parallel_workers")
    for key, threads in given.items():
        if type(threads) is int and threads > most:
            yield Problem(f"{key}={threads}: {_HERE} has {most} core{'s' * (most > 1)}", (key,), f"{key}={most}")
