"""What runs inside one rank: read the frozen run directory, train through mindformers' Trainer, report.

Started as a process (``python -m mindrecipe.worker RUN_DIR``), one a rank; the only part of mindrecipe besides the
data builder that imports mindspore and mindformers, and never Hydra. Importing this package imports neither: mindformers
reads its environment at import time, so :func:`main` prepares that first.
"""

from __future__ import annotations

from pathlib import Path

from mindrecipe.worker.guard import die_with_parent


def main(run_dir: str | Path) -> int:
    """Be one rank of the run that was frozen in ``run_dir``; the exit code: 0 done, 1 failed."""
    die_with_parent()
    from mindrecipe.worker.rank import work

    return work(Path(run_dir))


__all__ = ["main"]
