"""A run that is over before it can be broken: another one is begun. The runs are figures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mindrecipe.drill import drill
from mindrecipe.drill.job import Job
from mindrecipe.measure.record import Event, StepRecord

STEPS = [
    StepRecord(
        step=step, epoch=1, loss=5.0, lr=1.0, grad_norm=None, loss_scale=None, overflow=False, step_time=1.0, data_time=0.0,
        compute_time=1.0, other_time=0.0, tokens_per_s=1.0, tflops_per_device=0.0, mfu=None, memory_bytes=None,
    )
    for step in range(1, 13)
]  # fmt: skip


class Quick(Job):
    """A run of no time: of those that are to be broken only the last of ``left`` is still there when it is."""

    left: list[bool]

    def start(self) -> None:
        made = bool(self.left) and self.base.name != "straight" and self.left.pop(0)
        self.rank = psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) if made else None

    def workers(self) -> list[psutil.Process]:
        return [] if self.rank is None else [self.rank]

    @property
    def struck(self) -> bool:
        return self.rank is not None and self.rank.wait() == -9

    def wait(self) -> int:
        return 0

    def until(self, *_: Any, **__: Any) -> None:
        return

    def last_step(self) -> int:
        return 8

    def resumed(self) -> int:
        return 6

    def attempts(self) -> list[dict[str, Any]]:
        return [{"state": "failed", "ended": time.time() + 1}] if self.struck else []

    def events(self, phase: str) -> Iterator[Event]:
        if self.struck:
            yield Event(phase=phase, rank=0, pid=1, time=time.time() + 1, detail={})

    def trained(self) -> list[StepRecord]:
        return STEPS

    def kill(self) -> None:
        if getattr(self, "rank", None) is not None and self.rank.poll() is None:
            self.rank.kill()
            self.rank.wait()


@pytest.mark.parametrize(("left", "found"), [([False, False, True], (True, None)), ([False] * 9, (False, "5 runs were over before"))])
def test_another_one_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[bool], found: tuple[bool, str | None]) -> None:
    monkeypatch.setattr(sys.modules[drill.__module__], "Job", Quick)
    monkeypatch.setattr(Quick, "left", left, raising=False)
    straight, row = drill(["+model=llama2_tiny"], tmp_path, faults=["worker"], steps=12, every=3, seed=1)
    assert straight.identical and row.identical is found[0] and [hit.lost for hit in row.hits] == ([2] if found[0] else [])
    assert (row.problem is None) if found[1] is None else found[1] in (row.problem or "")
