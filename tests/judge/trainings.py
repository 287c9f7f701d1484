"""Real trainings, as a user starts them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from mindrecipe.judge.recorded import Recorded

TRAIN = str(Path(sys.executable).parent / "train")
PARTS = str(Path(__file__).parent)


def run(folder: Path, *words: str, steps: int = 40, fails: bool = False, memory: int | None = None) -> Recorded:
    """A real training of ``words``; ``memory`` bytes of address space at the most."""

    def limit() -> None:
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    path = folder / "run"
    common = ["+model=llama2_tiny", f"schedule.total_steps={steps}", "evaluate=off", "checkpoint=off", f"run.dir={path}"]
    common.append("monitor.usage_interval=0.5")  # what else runs here is seen in a short run too
    given = {word.partition("=")[0].lstrip("+") for word in words}
    words = (*(word for word in common if word.partition("=")[0].lstrip("+") not in given), *words)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [PARTS, os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        [TRAIN, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=560, check=False, preexec_fn=limit
    )
    assert (done.returncode != 0) == fails, (done.stdout + done.stderr)[-3000:]
    return Recorded(path)
