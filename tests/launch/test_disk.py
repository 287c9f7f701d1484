"""A disk that fills up under a run: a small one of its own, really filled."""

from __future__ import annotations

import errno
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import Streams, fake_plan, summary_of

from mindrecipe.launch import launch, preconditions
from mindrecipe.launch.attempt import DISK_FULL
from mindrecipe.launch.disk import DiskFull
from mindrecipe.measure.view import PlainView


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory on a file system of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a file system of its own needs the right to mount")
    monkeypatch.setattr(preconditions, "DISK_RESERVE", 1 << 20)
    (folder / "run").mkdir()
    yield folder / "run"
    subprocess.run(["umount", str(folder)], check=True)


def test_the_full_disk_is_the_cause_and_the_summary_is_there(small: Path, streams: Streams) -> None:
    outcome = launch(fake_plan(small, 1, FAKE_STEPS=500, FAKE_FAULT="0:fill@3"), streams.view())
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert outcome.errors[0].type == DISK_FULL
    assert "the disk of" in streams.err.getvalue() and str(small) in streams.err.getvalue()
    assert summary_of(small)["errors"][0]["type"] == DISK_FULL
    assert not (small / ".ballast").exists()


def test_an_output_on_the_full_disk_is_no_reason_for_a_traceback(run_dir: Path) -> None:
    class FullStream(io.StringIO):
        def write(self, text: str) -> int:
            if "step 2" in text or "state" in text:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    full = FullStream()
    with pytest.raises(DiskFull) as told:
        launch(fake_plan(run_dir, 1, FAKE_STEPS=500), PlainView(full, full))
    assert told.value.exit_code == 1 and str(run_dir) in told.value.what and "go on: train" in (told.value.mend or "")
    assert summary_of(run_dir)["state"] == "failed"
