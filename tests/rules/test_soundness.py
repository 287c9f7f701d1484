"""What check accepts mindformers accepts, up to the built network; what it says would stop a run does. A few dozen configurations:
`python benchmarks/rules_soundness.py` draws thousands.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from borders import EDGES, USUAL, draw, tally

#: raise it for a long search
DRAWN = int(os.environ.get("MINDRECIPE_FUZZ", "40"))


@pytest.mark.e2e
@pytest.mark.usefixtures("here")
def test_check_and_mindformers_agree(tmp_path: Path) -> None:
    rng = random.Random(2024)
    usual = tuple(f"{key}={value}" for key, value in USUAL.items())
    found = tally([*((*edge, *usual) for edge in EDGES), *(draw(rng) for _ in range(DRAWN))], tmp_path)
    assert found.drawn > DRAWN / 2 and found.accepted and found.rejected
    assert found.false_accepts == []
    assert found.false_alarms == []
    assert found.wrong_batches == []
