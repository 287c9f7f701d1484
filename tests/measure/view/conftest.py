"""One header, and a clock that stands still."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # samples.py

from mindrecipe.measure.view import Header


@pytest.fixture
def header(tmp_path: Path) -> Header:
    return Header(
        title="llama2_tiny", run_dir=tmp_path / "runs" / "llama2_tiny" / "20260101-120000-abcdef", total_steps=100, ranks=2, local_ranks=2,
        device="CPU", resume_hint="train model=llama2_tiny checkpoint.resume=runs/x",
    )  # fmt: skip
