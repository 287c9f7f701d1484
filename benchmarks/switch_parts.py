"""What benchmarks/monitor_wall.py puts into a rank, through run.imports: the monitor switched off and on again while it trains.

In each block of steps one state holds: "nothing", "defaults" (this rank's own step times, and a thread that samples what the machine
uses), "everything" (TensorBoard's events besides). What is part of the graph, or comes every so many steps only, can't be switched so:
monitor_cost.py tells it. A block's first step pays for switching, and is not kept.
"""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

from mindrecipe.worker import callback
from mindrecipe.worker.usage import Sampler

STATES, BLOCK, LEAST, INTERVAL = ("nothing", "defaults", "everything"), 6, 12, 5.0


class Sampling(threading.Thread):
    """The sampler's own loop, which can be ended."""

    def __init__(self, journal: Any) -> None:
        super().__init__(daemon=True)
        self.journal, self.sampler, self.over = journal, Sampler(journal.usage, INTERVAL, None), threading.Event()

    def run(self) -> None:
        while not self.over.wait(INTERVAL):
            self.journal.usage(self.sampler.sample())


class Switch:
    def __init__(self, journal: Any) -> None:
        self.journal, self.on = journal, (journal._rank_steps, journal.also)
        self.draw = random.Random(1)
        self.sampling: Sampling | None = None
        self.order: list[str] = []
        self.blocks: list[tuple[str, list[float]]] = []
        self.steps, self.last = -LEAST, 0.0

    def after_step(self) -> None:
        now = time.perf_counter()
        if self.steps > 0 and self.steps % BLOCK != 1:
            self.blocks[-1][1].append(now - self.last)
        self.last, self.steps = now, self.steps + 1
        if self.steps > 0 and self.steps % BLOCK == 1:
            self.next()

    def next(self) -> None:
        """Of each six blocks every state has two, and what gets slower meanwhile strikes all alike."""
        if not self.order:
            three = self.draw.sample(STATES, 3)
            self.order = [*three, *reversed(three)]
        state = self.order.pop()
        self.blocks.append((state, []))
        if self.sampling is not None:
            self.sampling.over.set()
            self.sampling.join()
            self.sampling = None
        self.journal._rank_steps = None if state == "nothing" else self.on[0]
        self.journal.also = self.on[1] if state == "everything" else None
        if state != "nothing":
            self.sampling = Sampling(self.journal)
            self.sampling.start()


switches: list[Switch] = []  # one, of the training that this process does
step, end = callback.StepEnd.on_train_step_end, callback.StepEnd.on_train_end


def after_step(self: Any, run_context: Any) -> None:
    step(self, run_context)
    if not switches:
        switches.append(Switch(self._journal))
    switches[0].after_step()


def at_the_end(self: Any, run_context: Any) -> None:
    journal = switches[0].journal
    journal._rank_steps, journal.also = switches[0].on
    end(self, run_context)
    Path(journal._events.name).with_name("blocks.json").write_text(json.dumps(switches[0].blocks), encoding="utf-8")


callback.StepEnd.on_train_step_end = after_step  # type: ignore[method-assign]
callback.StepEnd.on_train_end = at_the_end  # type: ignore[method-assign]
