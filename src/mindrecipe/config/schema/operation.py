"""How a run is operated: identity, processes and hosts, measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema.knob import knob
from mindrecipe.config.schema.layout import MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """Identity of a run."""

    name: str | None = knob(None, "Name of the run; null: the recipe's, else the model's.")
    dir: str | None = knob(
        None, "Run directory; null: runs/<name>/<time>-<hash>. An existing one is refused, unless the run resumes in it."
    )
    root: str = knob("runs", "Where run directories are made when run.dir is null.")
    seed: int = knob(42, "The one seed: weights (equal on all ranks), data order, dropout.", ge=0)
    imports: list[str] = knob(factory=list, doc="Python modules every rank imports first, to register your own parts with mindformers.")
    rehearse: str | None = knob(None, "mini: the run shrunk to a minute's work, its structure kept; null: as it is.", choices=("mini",))
    imported_from: str | None = knob(None, "The mindformers YAML this recipe was imported from; null: none.")
    tags: list[str] = knob(factory=list, doc="Free words, kept with the run.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesConfig:
    """What the rules may say of this run (`mindrecipe rules ls`)."""

    silence: dict[str, Any] = knob(
        factory=dict, doc='Rules that this run knows better than: id -> the reason, e.g. rules.silence.mesh.head_unsplit="...".'
    )
    strict: bool = knob(False, "Take warnings for errors; `--strict` says the same.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfig:
    """Processes and hosts."""

    mode: str = knob(
        "auto",
        "auto: one process, or msrun for several ranks; local, msrun: insist on one of them; ssh: on launch.hosts; slurm; "
        "simulate: MindSpore's dry run of the ranks, without devices.",
        choices=("auto", "local", "msrun", "ssh", "slurm", "simulate"),
    )
    hosts: list[str] = knob(factory=list, doc="ssh: hosts to start on, the first is the master, e.g. [node0,me@node1].")
    submit: bool = knob(True, "slurm: submit the script; false: only write it.")
    sbatch_args: list[str] = knob(factory=list, doc='slurm: further options of sbatch, as they are, each in quotes: ["--partition=npu"].')
    msrun_args: list[str] = knob(factory=list, doc='Further options of msrun, as they are, each in quotes: ["--bind_numa=True"].')
    bind_core: bool = knob(False, "msrun binds each rank to cores of its own, on Ascend near its device.")
    rank_table: str | None = knob(None, "Rank table file for what else reads it: msrun brings the ranks together without; null: none.")
    hccl_connect_timeout: int | None = knob(
        None,
        "HCCL_CONNECT_TIMEOUT, how long devices wait for each other at the start; null: the shell's, else cluster_time_out.",
        unit="s",
        ge=120,
        le=7200,
    )
    hccl_exec_timeout: int | None = knob(
        None,
        "HCCL_EXEC_TIMEOUT, how long a device waits for others in a collective, e.g. while one saves; 0: for ever; null: CANN's.",
        unit="s",
        ge=0,
    )
    hccl_buffsize: int | None = knob(
        None, "HCCL_BUFFSIZE, for sending and again for receiving, in each group of ranks; null: CANN's (200).", unit="MB", ge=1
    )
    hccl_deterministic: str | None = knob(
        None,
        "HCCL_DETERMINISTIC. on: reductions give the same every time; strict: in the same order, too; null: the shell's, else off.",
        choices=("off", "on", "strict"),
    )
    nodes: int = knob(1, "Hosts.", ge=1, le=MOST)
    devices_per_node: int | None = knob(
        None, "Devices (processes) of one host; null: 1 for standalone, else all of one (8; Ascend 910C: 16, CPU: 2).", ge=1, le=MOST
    )
    workers: int | None = knob(None, "Short for one node with so many devices.", ge=1, le=MOST)
    node_rank: int | None = knob(None, "Rank of this host among nodes; null: 0 when there is one.", ge=0)
    master_addr: str = knob("127.0.0.1", "Address of the first host.")
    master_port: int | None = knob(None, "Port of msrun's scheduler; null: a free one on one host, 8118 on several.", ge=1024, le=65535)
    cluster_time_out: int = knob(600, "Seconds the ranks wait for each other at the start.", unit="s", ge=1)
    threads_per_worker: int | None = knob(
        None, "CPU threads of one rank, of OpenMP and MindSpore's operators; null: OMP_NUM_THREADS, or on CPU cores / local ranks.", ge=1
    )
    stop_grace: float = knob(
        30.0, "Seconds that ranks have after SIGTERM to end their step, save a checkpoint and leave; then they are killed.", unit="s", ge=0
    )
    max_restarts: int = knob(0, "Times a failed or hung job is started again from its last good checkpoint.", ge=0)
    restart_window: float | None = knob(None, "Restarts longer ago do not count against max_restarts; null: all do.", unit="s", gt=0)
    restart_backoff: float = knob(5.0, "Wait before a restart; doubled as long as restarts bring no step, at most 600.", unit="s", ge=0)
    stall_timeout: float | None = knob(
        100.0,
        "A job hangs when no step ends for so many median step times (saving and evaluating may take longer: stall_min); null: never.",
        gt=1,
    )
    stall_min: float = knob(
        120.0, "Time without a step that is never a hang; saving and evaluating are none for 30 times as long.", unit="s", gt=0
    )
    env: dict[str, Any] = knob(factory=dict, doc="Environment variables of every rank; null unsets one.")
    simulate_ranks: str = knob(
        "first-of-each-stage", "launch=simulate: the ranks: first-of-each-stage (all that differ), all, or a list such as 0,4,8-11."
    )
    simulate_at_once: int | None = knob(
        None, "launch=simulate: ranks simulated at a time; null: as many as this host's cores and free memory allow.", ge=1, le=MOST
    )
    simulate_again: bool = knob(False, "launch=simulate: simulate again what an earlier simulation of the same configuration has kept.")
    dry_run: bool = knob(False, "Print the command lines that would run, and stop.")
    freeze_only: bool = knob(False, "Make all checks and the run directory, print the commands that start it (scripts/), and stop.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """What is measured and shown."""

    console: str = knob(
        "auto", "auto: live view on a terminal, plain lines in a pipe; live; plain; quiet.", choices=("auto", "live", "plain", "quiet")
    )
    log_steps: int = knob(1, "Steps between two lines on a plain console (metrics.jsonl always has every step).", unit="steps", ge=1)
    memory: bool = knob(True, "Measure memory each step.")
    rank_steps: bool = knob(True, "Record the times of each rank's steps, where there are several ranks: they show stragglers.")
    usage_interval: float | None = knob(
        5.0, "Seconds between two samples of CPU, memory, disk, network and NPU use; null: none.", unit="s", gt=0
    )
    grad_groups: bool = knob(False, "Record the gradient norm of each layer and of what is outside of layers (before reduction).")
    update_ratio_steps: int | None = knob(
        None,
        "Steps between two measurements of the update-to-weight ratio, which copies the weights to the host; null: none.",
        unit="steps",
        ge=1,
    )
    tensorboard: bool = knob(False, "Also write TensorBoard event files.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    """MindSpore's profiler around chosen steps; `mindrecipe profile` sums up what it has written."""

    enabled: bool = knob(False, "Profile the steps start to stop; `profile=steps` turns it on.")
    start: int = knob(5, "First profiled step of the run.", unit="steps", ge=1)
    stop: int = knob(10, "Last profiled step of the run.", unit="steps", ge=1)
    ranks: list[int] | None = knob(None, "Ranks that are profiled; null: all.")
    level: int = knob(0, "0: operators and large communication; 1: all communication and AI core counters; 2: CANN as well.", ge=0, le=2)
    memory: bool = knob(True, "Also record what memory is allocated, and when.")
