"""The TensorBoard sink: every figure of a step's record, in one event a step, below the run directory's ``tensorboard/``.

mindformers has a writer of its own, which knows loss, rate and norm, and counts the steps of one process: after a resume it would write
over what is there. This one is fed with the records of metrics.jsonl. tensorboardX is a dependency of mindformers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from mindrecipe.measure import curves
from mindrecipe.measure.record import StepRecord, read_steps
from mindrecipe.measure.summary import clipped, history
from mindrecipe.worker.environment import Place
from mindrecipe.worker.rundir import RunDir

_FLUSH = 10  # seconds
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
        from tensorboardX import SummaryWriter

        self._tokens, self._clip = tokens_per_sample, grad_clip
        self._losses = deque[float](maxlen=curves.WINDOW)
        self._overflows = self._clipped = self._last = 0
        for record in before:
            self._count(record)
        # what an earlier attempt wrote of the steps that follow is told to be void
        self._writer = SummaryWriter(str(folder), purge_step=self._last + 1 if self._last else None, flush_secs=_FLUSH)

    def step(self, record: StepRecord) -> None:
        """Write one step."""
        from tensorboardX.proto.summary_pb2 import Summary

        self._count(record)
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in self._scalars(record).items()]
        self._writer.file_writer.add_summary(Summary(value=values), record.step)

    def close(self) -> None:
        """Write what is still in memory."""
        self._writer.close()

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
