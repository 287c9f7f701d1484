"""Checkpoints after mindformers has written them: named by their true step, flushed, summed up, and only then do older ones go.

mindformers counts and names by the steps of its own process, deletes the oldest before the new one is written, and does not flush.
Here its deleting is turned off, it writes under names that no kept checkpoint has (mindspore deletes what has the name before it
writes), and each save is finished in a thread beside the training (manifest.py): a process that is killed at any moment leaves the
last whole checkpoint as it was. A save counts once its step is judged: not in the middle of bad steps that may yet be rolled back.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindformers.core.callback.callback import CheckpointMonitor

from mindrecipe.checkpoints import manifest
from mindrecipe.worker.environment import Place
from mindrecipe.worker.journal import Journal

_NEVER = 1_000_000_000
_POLL = 0.05
_SAVES_IN_BACKGROUND = "asyn_save_ckpt"  # mindspore's thread (train/serialization.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Save:
    """``made`` are the names mindformers gives, ``named`` those that they get; a pattern that is a path of one file."""

    step: int
    made: tuple[Path, ...]
    named: tuple[Path, ...]


class Keeper:
    """Looks after the saves of one rank. ``keep`` whole checkpoints stay; ``folder`` is RUN/checkpoint; ``first``: steps done before.

    Only rank 0 knows what the watchers say. ``borne`` are the steps in a row that they bear before it ends: on another rank all but
    older ones may yet be rolled back.
    """

    def __init__(
        self, monitor: CheckpointMonitor, folder: Path, keep: int, first: int, place: Place, journal: Journal, *, borne: int = 0
    ) -> None:
        self._monitor = monitor
        self._folder = folder
        self._keep = keep
        self._first = first
        self._place = place
        self._journal = journal
        self._borne = borne
        self._seen = 0
        self._waiting: list[_Save] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: list[Future[None]] = []
        manifest.begin(folder)
        monitor._config._keep_checkpoint_max = _NEVER
        if monitor.use_legacy_format:
            # kept names hold true steps: those of the process's own steps, which mindformers would give, may be kept ones
            monitor._prefix = f"{monitor.origin_prefix}_rank_{place.rank}_after_{first}"
        for name in ("save_checkpoint", "_save_megatron_ckpt_file_format"):
            setattr(monitor, name, self._announced(getattr(monitor, name)))

    def look(self, step_of_process: int, step: int, epoch: int, undecided: int | None = None) -> None:
        """After a step: finish the checkpoint, if one was saved at it. Raises what went wrong with an earlier one.

        Steps from ``undecided`` on may yet be rolled back: their checkpoints wait.
        """
        self._raise_faults()
        monitor = self._monitor
        if monitor._last_triggered_step == step_of_process and step_of_process != self._seen:
            self._seen = step_of_process
            self._waiting.append(self._of_callback(step, epoch) if monitor.use_legacy_format else self._of_section(step))
        self._finish_those_before(undecided)

    def _finish_those_before(self, undecided: int | None) -> None:
        decided = [save for save in self._waiting if undecided is None or save.step < undecided]
        self._waiting = self._waiting[len(decided) :]
        self._pending += [self._thread.submit(self._finish, save) for save in decided]

    def _announced(self, save: Callable[[Any], None]) -> Callable[[Any], None]:
        """However long it takes, a save is no hang: the launcher is told of it."""

        def announce_and_save(arguments: Any) -> None:
            if arguments.cur_step_num != self._monitor._last_triggered_step:  # else it has been saved: mindformers returns at once
                self._journal.phase("save", step=self._first + arguments.cur_step_num)
            save(arguments)

        return announce_and_save

    def close(self, *, lost: bool = False) -> None:
        """Wait until every save is finished. ``lost``: the run is to be rolled back, and what still waits to be judged is none."""
        if not lost:  # the run ends here: bad steps that were borne to its end leave a checkpoint, but cost none that is older
            self._pending += [self._thread.submit(self._finish, save, prune=False) for save in self._waiting]
        self._thread.shutdown(wait=True)
        self._raise_faults()

    def _of_callback(self, step: int, epoch: int) -> _Save:
        monitor = self._monitor
        made = Path(monitor._latest_ckpt_file_name)
        named = made.with_name(f"{monitor.origin_prefix}_rank_{self._place.rank}-{epoch}_{step}{made.suffix}")
        if monitor._config.async_save:
            monitor.last_ckpoint_file = named.name
            return _Save(step=step, made=(made,), named=(named,))
        os.replace(made, named)
        monitor.record_last_ckpt_to_json(epoch, int(re.findall(r"\d+", made.stem)[-1]), named.name)
        return _Save(step=step, made=(named,), named=(named,))

    def _of_section(self, step: int) -> _Save:
        monitor, rank, world = self._monitor, self._place.rank, self._place.world
        folder = Path(monitor.directory or self._folder) / f"iteration_{step:08d}"
        kinds = ("model", "opt") if monitor.save_optimizer else ("model",)
        files = [folder / f"{monitor.origin_prefix}-{kind}-{rank:07d}-{world:07d}.safetensors" for kind in kinds]
        if rank == 0:
            files.append(folder / "common.json")
            described = folder / "metadata.json"  # of ranks that share the weights out; mindformers has waited for it
            files += [described] if described.exists() else []
        return _Save(step=step, made=tuple(files), named=tuple(files))

    def _finish(self, save: _Save, *, prune: bool = True) -> None:
        for made, named in zip(save.made, save.named, strict=True):
            _arrive(made, named)
        place = self._place
        manifest.write(self._folder, manifest.make(self._folder, list(save.named), step=save.step, rank=place.rank, world=place.world))
        if prune:
            manifest.prune(self._folder, self._keep, None if place.rank == 0 else save.step - self._borne)
        path = save.named[0] if self._monitor.use_legacy_format else save.named[0].parent
        self._journal.phase("checkpoint", step=save.step, path=str(path), complete=True)

    def _raise_faults(self) -> None:
        finished = [future for future in self._pending if future.done()]
        self._pending = [future for future in self._pending if not future.done()]
        for future in finished:
            future.result()


def _arrive(made: Path, named: Path) -> None:
    """Wait for a file that is saved in the background, and give it its name.

    FileNotFoundError where mindspore's thread has ended without it: its own error is in the rank's log.
    """
    while any(thread.name == _SAVES_IN_BACKGROUND for thread in threading.enumerate()):
        time.sleep(_POLL)
    if not made.exists():
        raise FileNotFoundError(f"{made} was not written: the error of saving in the background is in this rank's log")
    os.replace(made, named)
