"""The frozen run directory as a rank sees it: paths, and the two small files it reads itself.

mindformers.yaml is not among them: mindformers loads that one, so that its template and checks apply (see load.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.checkpoints import manifest
from mindrecipe.errors import UserError
from mindrecipe.runfiles import CONFIG, LOCK, NATIVE, RunFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDir(RunFiles):
    """``config`` is config.yaml (the resolved RunConfig, a plain dict), ``derived`` the section of that name in lock.json."""

    config: dict[str, Any]
    derived: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> RunDir:
        """Read ``path``. Raises UserError when it is not a run directory."""
        path = path.absolute()
        missing = [name for name in (CONFIG, LOCK, NATIVE) if not (path / name).is_file()]
        if missing:
            raise UserError(f"{path} is not a frozen run: {', '.join(missing)} missing", mend="make one with `train`, or give its folder")
        config = yaml.safe_load((path / CONFIG).read_text(encoding="utf-8"))
        lock = json.loads((path / LOCK).read_text(encoding="utf-8"))
        return cls(path=path, config=config, derived=lock["derived"])

    def require_room(self) -> None:
        """Raise UserError where a rank that starts here would overwrite what the directory has trained.

        The launcher's ranks need not ask: it says where they go on from, which after a loss that was NaN is before the last checkpoint.
        """
        trained = manifest.newest(self.checkpoints)
        if trained > self.resumed_step:
            raise UserError(
                f"{self.path} has trained: it has checkpoints up to step {trained}, and starts after step {self.resumed_step}. "
                "They would be overwritten",
                where=str(self.checkpoints),
                mend="a run directory that goes on from them: train ... "
                f"checkpoint.resume={self.path} run.dir=<a new one> launch.freeze_only=true",
            )

    @property
    def resumed_step(self) -> int:
        """Optimizer steps done before this process started; 0 for a fresh run."""
        resume = self.derived.get("resume")
        return int(resume["step"]) if resume else 0

    @property
    def trained_out(self) -> bool:
        """No step is left: an earlier process was stopped after its last checkpoint."""
        total = self.derived.get("total_steps")
        return total is not None and self.resumed_step >= int(total)
