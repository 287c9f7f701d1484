"""What is to be simulated: the only input besides the run directory and the stand-in."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.errors import UserError
from mindrecipe.simulate import ranks

#: what MindSpore is told the device is: it decides which kernels are selected
SOC_NAMES = {
    "ascend_910a": "Ascend910A",
    "ascend_910b": "Ascend910B1",
    "ascend_910b1": "Ascend910B1",
    "ascend_910b2": "Ascend910B2",
    "ascend_910b3": "Ascend910B3",
    "ascend_910b4": "Ascend910B4",
    "ascend_910c": "Ascend910_9391",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One simulation of a frozen run directory.

    ``asked`` names the ranks (see ranks.py). ``at_once``: ranks at a time, null: as many as this host's cores and memory allow. ``limit``:
    memory.max_device_memory in bytes. ``cache``: the user's cache. ``fresh``: simulate again what was simulated before. ``imports``: the
    user's own modules. ``worker``: the python arguments that start a rank, before the run directory.
    """

    run_dir: Path
    title: str
    device: str
    device_num: int
    stages: int
    asked: str
    at_once: int | None
    limit: int | None
    cache: Path
    env: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = False
    imports: tuple[str, ...] = ()
    worker: tuple[str, ...] = ("-m", "mindrecipe.worker")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks to simulate. UserError where ``asked`` names none."""
        return ranks.chosen(self.asked, self.device_num, self.stages)

    def require_possible(self) -> None:
        """UserError where ranks or device are none that can be simulated."""
        _ = (self.ranks, self.soc)  # each says what is wrong with it

    @property
    def soc(self) -> str:
        """MindSpore's name of the device. UserError where the dry run has none."""
        if self.device not in SOC_NAMES:
            raise UserError(
                f"MindSpore's dry run is of Ascend devices, and this recipe is for {self.device}",
                where=f"device.name={self.device}",
                mend=f"device={', device='.join(SOC_NAMES)}",
            )
        return SOC_NAMES[self.device]

    def stage_of(self, rank: int) -> int:
        """The pipeline stage of a rank."""
        return ranks.stage_of(rank, self.device_num, self.stages)

    @property
    def keeps(self) -> bool:
        """Whether reports are kept: not of code of the user's own, as nobody knows which files make it up."""
        return not self.imports

    def kept(self, rank: int, version: str) -> Path:
        """Where the report of a rank is kept for later simulations of the same configuration, where this job :attr:`keeps` them."""
        return self.cache / "simulation" / "reports" / f"{self.digest(version)}" / f"rank_{rank}.json"

    def digest(self, version: str) -> str:
        """Hash of all that decides what a rank reports: mindformers.yaml but for its paths, the mesh, versions, our part of the rank."""
        native = yaml.safe_load((self.run_dir / "mindformers.yaml").read_text(encoding="utf-8"))
        settings = {
            "native": json.dumps(native, sort_keys=True, default=str).replace(str(self.run_dir), ""),
            "devices": (self.device_num, self.soc),
            "versions": (version, importlib.metadata.version("mindformers")),
            "env": dict(self.env),
        }
        worker = files("mindrecipe").joinpath("worker").joinpath("simulated")
        sources = sorted((each for each in worker.iterdir() if each.is_file()), key=lambda each: each.name)
        text = json.dumps(settings, sort_keys=True, default=str) + "".join(each.read_text(encoding="utf-8") for each in sources)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
