"""A healthy training that several tests look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from trainings import run

from mindrecipe.judge.recorded import Recorded


@pytest.fixture(scope="session")
def healthy(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Sixty steps of a tiny Llama, two checkpoints, and its held-out loss over eight batches."""
    kept = ("evaluate=at_end", "evaluate.max_batches=8", "checkpoint=steps", "checkpoint.save_steps=30")
    return run(tmp_path_factory.mktemp("healthy"), *kept, steps=60)
