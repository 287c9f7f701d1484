"""SIGTERM and SIGHUP while data are built: everything is cleaned up, said, and told by the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_build_that_is_stopped_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    scratch, cache = tmp_path / "tmp", tmp_path / "cache"
    scratch.mkdir()
    (tmp_path / "big.txt").write_text("".join(f"line {number} of the text\n" for number in range(400_000)), encoding="utf-8")
    words = ["+model=llama2_tiny", "dataset=text", "dataset.files=[big.txt]"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from mindrecipe.cli.train import main; main()", *words],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch), "MINDRECIPE_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not list(cache.glob("*.building-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 128 + number, said
    assert f"stopped by {number.name}" in said and "Traceback" not in said
    assert not list(scratch.glob("mindrecipe-data-*")), "the folder of the builder's messages is gone"
    assert not list(cache.glob("*.building-*")), "and so is what it was building"
    assert not (tmp_path / "runs").exists()
