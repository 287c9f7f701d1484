"""The TensorBoard sink: every figure of a step's record, in one event a step, below the run directory's ``tensorboard/``.

mindformers has a writer of its own, which knows loss, rate and norm, and counts the steps of one process: after a resume it would write
over what is there. This one is fed with the records of metrics.jsonl. tensorboardX is a dependency of mindformers.

In a process of mindspore's protobuf is written in Python, and tensorboardX's SummaryWriter sends each event through a pipe to a thread of
its own: 0.7 ms of CPU time a step. Here its messages are made once, and only the numbers in them change: see :class:`Form`.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mindrecipe.measure import curves
from mindrecipe.measure.record import StepRecord, read_steps
from mindrecipe.measure.summary import clipped, history
from mindrecipe.worker.environment import Place
from mindrecipe.worker.rundir import RunDir

_LEAST = 10.0  # seconds that events wait in memory: many written in one go cost a fraction of as many written one by one
#: groups of TensorBoard's page -> fields of the record
GROUPS = {
    "correctness": ("loss", "lr", "grad_norm", "loss_scale", "update_ratio"),
    "time": ("step_time", "data_time", "compute_time", "other_time", "checkpoint_time", "cpu_time"),
    "speed": ("tokens_per_s", "tflops_per_device", "mfu", "hfu"),
    "resources": ("memory_bytes",),
}
_TAGS = tuple((f"{group}/{name}", name) for group, names in GROUPS.items() for name in names)


def board_of(run: RunDir, place: Place) -> Board | None:
    """The first rank's, with monitor.tensorboard."""
    if place.rank or not run.config["monitor"]["tensorboard"]:
        return None
    return Board(
        run.path / "tensorboard",
        tokens_per_sample=int(run.derived["tokens_per_step"]) // int(run.derived["global_batch_size"]),
        grad_clip=run.config["optimizer"]["grad_clip"],
        before=[record for record in history(read_steps(run.metrics)) if record.step <= run.resumed_step],
    )


class Board:
    """``tokens_per_sample`` of one sequence; ``grad_clip`` the norm above which a step is clipped, None: never. ``before``: the steps
    before this process, which the moving mean and the counts go on from.
    """

    def __init__(self, folder: Path, *, tokens_per_sample: int, grad_clip: float | None, before: Iterable[StepRecord] = ()) -> None:
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        self._tokens, self._clip = tokens_per_sample, grad_clip
        self._losses = deque[float](maxlen=curves.WINDOW)
        self._overflows = self._clipped = self._last = 0
        for record in before:
            self._count(record)
        self._waiting: list[tuple[float, StepRecord]] = []
        self._forms: dict[tuple[str, ...], Form] = {}
        self._written = time.monotonic()
        wrote = any(folder.glob("events.*"))
        now = time.time()
        self._file = (folder / f"events.out.tfevents.{now:.0f}.{socket.gethostname()}").open("ab")
        self._file.write(framed(Event(wall_time=now, file_version="brain.Event:2").SerializeToString()))
        if self._last or wrote:  # what an earlier attempt wrote of the steps that follow is told to be void
            void = SessionLog(status=SessionLog.START)
            self._file.write(framed(Event(wall_time=now, step=self._last + 1, session_log=void).SerializeToString()))

    def step(self, record: StepRecord) -> None:
        """Take one step, and write those that have waited long enough."""
        self._waiting.append((time.time(), record))
        if time.monotonic() - self._written >= _LEAST:
            self._write()

    def close(self) -> None:
        """Write what is still in memory."""
        self._write()
        self._file.close()

    def _write(self) -> None:
        for when, record in self._waiting:
            self._count(record)
            scalars = self._scalars(record)
            tags = tuple(scalars)
            form = self._forms.get(tags) or self._forms.setdefault(tags, Form(tags))
            self._file.write(framed(form.filled(when, record.step, list(scalars.values()))))
        self._waiting.clear()
        self._file.flush()
        self._written = time.monotonic()

    def _count(self, record: StepRecord) -> None:
        self._losses.append(record.loss)
        self._overflows += record.overflow
        self._clipped += self._clip is not None and clipped(record, self._clip)
        self._last = record.step

    def _scalars(self, record: StepRecord) -> dict[str, float]:
        """Tag -> value; what was not measured is left out."""
        found = {tag: getattr(record, name) for tag, name in _TAGS}
        found |= {f"grad_groups/{name}": value for name, value in (record.grad_groups or {}).items()}
        mean, variance = curves.mean_and_variance(self._losses)
        found |= {"correctness/loss_mean": mean, "correctness/loss_variance": variance, "correctness/overflow_steps": self._overflows}
        found |= {"correctness/clipped_steps": self._clipped, "speed/samples_per_s": record.tokens_per_s / self._tokens}
        return {tag: float(value) for tag, value in found.items() if value is not None}


def framed(event: bytes) -> bytes:
    """A record of TensorBoard's files (TFRecord): length, its checksum, the event, its checksum. tensorboardX's writer of them syncs the
    disk at each flush, which training would wait for."""
    from tensorboardX.record_writer import masked_crc32c

    length = struct.pack("<Q", len(event))
    return b"".join([length, struct.pack("<I", masked_crc32c(length)), event, struct.pack("<I", masked_crc32c(event))])


class Form:
    """The bytes of an event that tells the scalars of these ``tags``: made once by protobuf, then filled with other numbers.

    A scalar's message ends with its number, four bytes that are never left out; messages that follow one another are one (a rule of
    protobuf's encoding), so that time and step, whose lengths change, stand before.
    """

    def __init__(self, tags: Sequence[str]) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        self._event = Event
        values = [Summary.Value(tag=tag, simple_value=1.0) for tag in tags]
        self._bytes = np.frombuffer(Event(summary=Summary(value=values)).SerializeToString(), np.uint8).copy()
        lengths = [Summary(value=[value]).ByteSize() for value in values]
        ends = len(self._bytes) - sum(lengths) + np.cumsum(lengths)
        self._places = ends[:, None] + np.arange(-4, 0)

    def filled(self, when: float, step: int, values: Sequence[float]) -> bytes:
        """An event at ``when`` (seconds since the epoch) with a number for each tag; one beyond a float32 is infinite."""
        with np.errstate(over="ignore"):
            numbers = np.asarray(values, "<f4")
        self._bytes[self._places] = numbers.view(np.uint8).reshape(-1, 4)
        head: bytes = self._event(wall_time=when, step=step).SerializeToString()
        return head + self._bytes.tobytes()
