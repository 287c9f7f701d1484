"""Earlier runs: which there are, and how one ended, as far as its directory tells: what speaks against "there is nothing left to do"."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.find import Found
from mindrecipe.derive import Derived
from mindrecipe.measure.artifacts import dataset_of, read_config
from mindrecipe.runfiles import LOCK, RunFiles


def earlier_runs(derived: Derived) -> list[Path]:
    """Run directories that resume=auto looks at, newest first."""
    given = derived.config.run
    if given.dir is not None:
        base = Path(given.dir).expanduser().absolute()
        again = re.compile(rf"{re.escape(base.name)}(-\d+)?")  # as execute.py calls the run directories of later runs
        candidates = [path for path in base.parent.glob("*") if again.fullmatch(path.name)]
    else:
        candidates = list((Path(given.root).expanduser().absolute() / (given.name or "run")).glob("*"))
    return sorted((path for path in candidates if (path / LOCK).exists()), key=lambda path: (path / LOCK).stat().st_mtime, reverse=True)


def had_some(derived: Derived, run: Path) -> bool:
    """Whether a checkpoint of ``run`` was once whole, as far as it is known: else what lies there is what a killed process left."""
    folder = RunFiles(path=run).checkpoints
    return manifest.finished(folder, derived.device_num) != set() or bool(manifest.damaged(folder))


def evaluation_is_missing(run: Path) -> bool:
    """Whether ``run`` was to be evaluated at its end, could be (its data is still there), and was not."""
    if summary_of(run).get("state") == "completed" or not read_config(run).get("evaluate", {}).get("at_end"):
        return False
    files = (dataset_of(run) or {}).get("heldout_files") or []
    return bool(files) and all(Path(file).is_file() for file in files)


def last_is_lost(derived: Derived, run: Path, found: Found, total: int) -> bool:
    """Whether ``run`` had a checkpoint of its last step once, beside those ``found``."""
    folder = RunFiles(path=run).checkpoints
    finished = manifest.finished(folder, derived.device_num)
    if finished is None:
        return bool(found.broken)
    whole = {each.step for each in found.complete}
    return bool(manifest.damaged(folder)) or any(step >= total and step not in whole for step in finished)


def summary_of(run: Path) -> dict[str, Any]:
    """summary.json; empty where there is none."""
    path = RunFiles(path=run).summary()
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
