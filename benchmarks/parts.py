"""What benchmarks put into the trainings that they start lies beside them: run.imports names it."""

from __future__ import annotations

import os
from pathlib import Path


def let_trainings_find_them() -> None:
    """From now on processes that this one starts can import the modules of this folder."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent.resolve()), os.environ.get("PYTHONPATH")]))
