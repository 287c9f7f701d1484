"""Earlier runs: which there are, and how one ended, as far as its directory tells: what speaks against "there is nothing left to do"."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.find import Found
from mindrecipe.derive import Derived
from mindrecipe.measure.artifacts import dataset_of, read_config, read_heldout, total_steps_of
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


def evaluation_is_missing(derived: Derived, run: Path, step: int) -> bool:
    """Whether ``run`` was to be evaluated at its end, which was to be after ``step``, could be (its data is still there), and was not.

    A run without a summary, which nobody supervised, has been where all its ranks have told their parts.
    """
    wanted = derived.config.evaluate.at_end and read_config(run).get("evaluate", {}).get("at_end")
    total = total_steps_of(run)
    if summary_of(run).get("state") == "completed" or not wanted or total is None or total > step:
        return False
    if not RunFiles(path=run).summary().exists() and len(read_heldout(run)) >= derived.device_num:
        return False
    files = (dataset_of(run) or {}).get("heldout_files") or []
    return bool(files) and all(Path(file).is_file() for file in files)


def files_are_gone(derived: Derived, run: Path) -> bool:
    """Whether ``run`` had whole checkpoints once, of which only the manifests are left."""
    return bool(manifest.finished(RunFiles(path=run).checkpoints, derived.device_num))


def last_is_lost(derived: Derived, run: Path, found: Found, total: int) -> bool:
    """Whether ``run`` had a checkpoint of its last step, which is damaged now: one that is gone was taken away by somebody on purpose."""
    folder = RunFiles(path=run).checkpoints
    finished = manifest.finished(folder, derived.device_num)
    if finished is None:
        return bool(found.broken)
    whole = {each.step for each in found.complete}
    named = manifest.read(folder)
    bad = [step for step in finished if step >= total and step not in whole]
    there = [(folder / name).exists() for step in bad for rank in named[step].values() for name in rank.files]
    return bool(manifest.damaged(folder)) or any(there)


def summary_of(run: Path) -> dict[str, Any]:
    """summary.json; empty where there is none."""
    path = RunFiles(path=run).summary()
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
