"""What benchmarks/monitor_cost.py puts into a rank, through run.imports: the CPU time of each hook of the monitor, step by step.

CPU time of the thread that trains: what a hook waits for (the step that is still computed, a busy machine) is not counted. The hooks of a
step enclose the others, which are told as well.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindrecipe.worker import board, callback, gauges, journal, usage

SPENT: dict[str, list[float]] = defaultdict(list)


def timed(owner: Any, name: str, what: str) -> None:
    """From now on the times of ``owner.name`` are kept as ``what``."""
    work: Callable[..., Any] = getattr(owner, name)

    def keep(*args: Any, **more: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*args, **more)
        finally:
            SPENT[what].append(time.thread_time() - began)

    setattr(owner, name, keep)


def a_step_each(work: Callable[[Any], None]) -> Callable[[Any], None]:
    def keep(sink: Any) -> None:
        steps, began = len(sink._waiting), time.thread_time()
        work(sink)
        SPENT["events, written together"] += [(time.thread_time() - began) / steps] * steps if steps else []

    return keep


def at_the_end(work: Callable[..., None]) -> Callable[..., None]:
    def tell(end: Any, run_context: Any) -> None:
        work(end, run_context)
        told = {"spent": SPENT, "shapes": [list(weight.shape) for weight in end._weights]}
        Path(end._journal._events.name).with_name("hook_times.json").write_text(json.dumps(told), encoding="utf-8")

    return tell


timed(callback.StepStart, "on_train_step_begin", "begin")
timed(callback.StepStart, "on_train_step_end", "outputs")
timed(callback.StepEnd, "on_train_step_end", "end")
timed(journal.Journal, "step", "line")
timed(journal.Journal, "rank_step", "rank line")
board.Board._write = a_step_each(board.Board._write)  # type: ignore[method-assign]
timed(gauges.UpdateRatio, "after_step", "update ratio")
timed(gauges.GroupNorms, "__call__", "by layer")
timed(usage.Sampler, "sample", "machine use")
callback.StepEnd.on_train_end = at_the_end(callback.StepEnd.on_train_end)  # type: ignore[method-assign]
