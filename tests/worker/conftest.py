"""What the worker's tests share: data, and real runs of frozen directories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import BARE, HERE, Finished, msrun, run_python


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with shifted_/labelled_ train/heldout .mindrecord and the ids they were made of."""
    folder = tmp_path_factory.mktemp("data")
    made = run_python(HERE / "make_data.py", folder, cwd=folder)
    assert made.returncode == 0, made.stdout
    return folder


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Finished]:
    """Let one worker, or with ``ranks`` several through msrun, work on a frozen run; it must succeed unless ``fails``."""

    def start(run: Path, *, ranks: int = 1, fails: bool = False, files: dict[str, str] | None = None) -> Finished:
        cwd = tmp_path_factory.mktemp("cwd")
        for name, text in (files or {}).items():
            (cwd / name).write_text(text)
        arguments = ("-m", "mindrecipe.worker", run)
        done = run_python(*arguments, cwd=cwd) if ranks == 1 else msrun(*arguments, cwd=cwd, ranks=ranks)
        finished = Finished(path=run, code=done.returncode, output=done.stdout, cwd=cwd)
        assert (finished.code != 0) == fails, finished.output[-4000:]
        return finished

    return start


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[float]]:
    """Losses of the bare script on a mindformers.yaml."""

    def start(native: Path) -> list[float]:
        cwd = tmp_path_factory.mktemp("bare")
        done = run_python(BARE, native, cwd / "steps.json", cwd=cwd, LOCAL_DEFAULT_PATH=str(cwd / "output"))
        assert done.returncode == 0, done.stdout[-4000:]
        return list(json.loads((cwd / "steps.json").read_text())["losses"])

    return start
