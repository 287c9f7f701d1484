"""A launch of fake ranks: real processes, real signals, no mindspore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes import Streams, fake_plan, processes_of

from mindrecipe.launch import LaunchPlan


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A name that breaks whatever passes it through a shell."""
    folder = tmp_path / "a run 数据 $HOME {p,q}=1"
    folder.mkdir()
    return folder


@pytest.fixture
def plan(run_dir: Path) -> Callable[..., LaunchPlan]:
    """A plan of fake ranks: ``plan(2, FAKE_FAULT="1:raise@2", stop_grace=1)``."""
    return lambda ranks=1, **options: fake_plan(run_dir, ranks, **options)


@pytest.fixture(autouse=True)
def nothing_is_left(run_dir: Path) -> Iterator[None]:
    """After any test no process of its run may live."""
    yield
    left = processes_of(run_dir)
    for process in left:
        process.kill()
    assert not left, f"left behind: {left}"
