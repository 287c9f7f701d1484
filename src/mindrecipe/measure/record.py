"""What a rank reports while it runs: a line of metrics a step, its own times where there are several ranks, what it uses of the
machine, and events that mark its phases.

All are JSON lines, written by the worker and read by the live view, the summary and every later comparison.
No mindspore here: readers and writers share these dataclasses.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mindrecipe.errors import UserError
from mindrecipe.measure.numbers import plain

_Made = TypeVar("_Made")
_encode = json.JSONEncoder(allow_nan=False).encode
PHASES = ("start", "import", "build", "compile", "train", "alarm", "save", "checkpoint", "evaluate", "done", "stopped", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One optimizer step. Times are seconds of wall clock; ``tokens_per_s`` is of the whole job.

    ``data_time`` is the wait for the next batch, ``compute_time`` forward, backward, communication and update (one graph, which only
    a profile can take apart), ``other_time`` callbacks (checkpoints, logging); the three add up to ``step_time``.
    ``checkpoint_time`` is the part of ``other_time`` that saving took, ``cpu_time`` the CPU time (all threads) of the first rank's
    process. ``mfu`` and ``hfu`` are null where the device's peak is unknown,
    ``tflops_per_device`` too where the model's FLOPs are. ``memory_bytes`` is the device's peak, on CPU the
    resident set of the process. ``grad_groups`` (monitor.grad_groups) are norms of this rank's gradients before they are reduced;
    ``update_ratio`` (monitor.update_ratio_steps) is the norm of the update over that of the weights. ``profiled``: the profiler watched
    this step, or began or ended beside it: its times are no times of the run. ``warm_up``: it is one of the first steps of its process,
    which compile and fill caches; a run that was started again has some in its middle.
    """

    step: int
    epoch: int
    loss: float
    lr: float
    grad_norm: float | None
    loss_scale: float | None
    overflow: bool
    step_time: float
    data_time: float
    compute_time: float
    other_time: float
    tokens_per_s: float
    tflops_per_device: float | None
    mfu: float | None
    memory_bytes: int | None
    hfu: float | None = None
    checkpoint_time: float = 0.0
    cpu_time: float | None = None
    grad_groups: dict[str, float] | None = None
    update_ratio: float | None = None
    profiled: bool = False
    warm_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """One step as one rank saw it, where there are several (``logs/rank_N.steps.jsonl``); times as in :class:`StepRecord`.

    A rank that waits for another one does so inside ``compute_time``: the straggler is the one that waits least. ``cpu_time`` is of this
    rank's process: who waits uses none.
    """

    step: int
    time: float
    data_time: float
    compute_time: float
    other_time: float
    cpu_time: float | None = None

    @classmethod
    def of(cls, record: StepRecord) -> RankStep:
        """What of ``record`` is this rank's own, as of now."""
        data, compute, other = record.data_time, record.compute_time, record.other_time
        return cls(step=record.step, time=time.time(), data_time=data, compute_time=compute, other_time=other, cpu_time=record.cpu_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one rank and its host used since the sample before (``logs/rank_N.usage.jsonl``); null is "can't be told here".

    ``cpu`` cores that this process used, ``host_cpu`` those that all processes of the host together used of the ``host_cores`` cores that
    the run may use; ``rss`` and ``host_memory`` bytes in use; rates in bytes/s: ``disk_read``, ``disk_write`` of this process,
    ``net_sent``, ``net_received`` of the host. ``npu`` is the share of its NPU's cores that were busy.
    """

    time: float
    cpu: float
    host_cpu: float
    rss: int
    host_memory: int
    disk_read: float | None
    disk_write: float | None
    net_sent: float
    net_received: float
    npu: float | None
    host_cores: int | None = None  # runs of before it was recorded have as many as their machine (lock.json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A rank entered ``phase`` (one of :data:`PHASES`) at ``time`` (seconds since the epoch)."""

    phase: str
    rank: int
    pid: int
    time: float
    detail: dict[str, Any]


def event(phase: str, rank: int, pid: int, **detail: Any) -> Event:
    """An event of now."""
    if phase not in PHASES:
        raise ValueError(f"unknown phase {phase!r}, one of {', '.join(PHASES)}")
    return Event(phase=phase, rank=rank, pid=pid, time=time.time(), detail=detail)


def to_line(record: StepRecord | RankStep | Usage | Event) -> str:
    """One JSON line; NaN and infinities become null's honest neighbours, the strings "nan", "inf", "-inf"."""
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    try:
        return _encode(values) + "\n"
    except ValueError:  # a number of this step is none: rare, and this is done at every step
        return _encode(plain(values)) + "\n"


def step_from_line(line: str) -> StepRecord:
    """The record of a line that :func:`to_line` wrote."""
    return _step(json.loads(line))


def _step(raw: dict[str, Any]) -> StepRecord:
    return StepRecord(**{key: _number(value) for key, value in raw.items()})


def read_steps(path: Path) -> Iterator[StepRecord]:
    """Records of a metrics.jsonl; an unfinished last line (a rank was killed while it wrote) is left out."""
    return read_lines(path, _step)


def read_rank_steps(path: Path) -> list[RankStep]:
    """The steps of one rank, the last record of each: a resumed run trains some of them again."""
    found = {record.step: record for record in read_lines(path, lambda raw: RankStep(**raw))}
    return [found[step] for step in sorted(found)]


def read_usage(path: Path) -> list[Usage]:
    """The samples of one rank."""
    return list(read_lines(path, lambda raw: Usage(**raw)))


def read_events(path: Path) -> list[Event]:
    """The events of one rank."""
    return list(read_lines(path, lambda raw: Event(**raw)))


def read_lines(path: Path, make: Callable[[dict[str, Any]], _Made]) -> Iterator[_Made]:
    """What ``make`` makes of the objects in the finished lines of a file; none where it does not exist.

    UserError for a line that is no JSON, or whose fields are not those that ``make`` takes: another version's.
    """
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                raw = json.loads(line)
                if not isinstance(raw, dict):
                    raise TypeError("it holds no object")
                made = make(raw)
            except (ValueError, TypeError, KeyError) as fault:  # of letters, of JSON, of fields
                raise UserError(
                    f"line {number} of {path} can't be read: {fault}",
                    mend="remove that line where it is damaged; another version of mindrecipe has other fields",
                ) from fault
            yield made


def event_from_line(line: str) -> Event:
    """The event of a line that :func:`to_line` wrote."""
    return Event(**json.loads(line))


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    return float(value) if isinstance(value, str) else value
