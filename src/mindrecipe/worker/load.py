"""From mindformers.yaml to a config that mindformers trains: load, check, put the portable parts in place.

The file is loaded by its path: a MindFormerConfig built from a dict skips mindformers' whole template, its defaults as well as
its check of unknown keys.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from mindrecipe import traps
from mindrecipe.errors import UserError
from mindrecipe.worker.environment import Place
from mindrecipe.worker.rundir import RunDir


def user_modules(names: list[str]) -> None:
    """Import ``run.imports``, which register the user's own parts with mindformers' MindFormerRegister.

    Raises UserError when a module can not be imported, with the original error as its cause.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UserError(
                f"run.imports: {name} can not be imported: {error}",
                where=f"run.imports={names}",
                mend="modules are found in the folder the run was started from, in PYTHONPATH and among installed packages",
            ) from error


def load(run: RunDir, place: Place, *, trains: bool = True) -> Any:
    """The run's MindFormerConfig, checked, with parts that CPU lacks replaced by portable ones.

    ``trains`` False: it is not to be trained any more, so that traps of training and what it would resume are no matter.

    Raises UserError for what mindformers would silently take the wrong way (see traps.py), and what mindformers raises for an
    unknown key.
    """
    from mindformers import MindFormerConfig

    native = MindFormerConfig(str(run.native))
    resume = run.derived.get("resume")
    setting = traps.Setting(
        native=native,
        world=place.world,
        total_steps=run.derived.get("total_steps"),
        resumed_step=run.resumed_step,
        resume_asked=resume is not None,
    )
    if trains:
        traps.check(setting)
    if trains and run.config["parallel"]["mode"] == "data_parallel":
        _share_replicas(native, run, place)
    if setting.several and not setting.legacy:
        from mindrecipe.worker import mcore_groups

        mcore_groups.install()
    if setting.cpu:
        from mindrecipe.worker import portable

        portable.replace(native, legacy=setting.legacy)
    if run.config["watch"]["loss_spike"] == "skip":
        from mindrecipe.worker.loss_gate import GATED

        cell = native.runner_wrapper.type
        if cell not in GATED:
            raise UserError(f"watch.loss_spike=skip: the step cell {cell} can't leave an update out", mend="watch.loss_spike=roll_back")
        native.runner_wrapper.type = GATED[cell]
    return native


def _share_replicas(native: Any, run: RunDir, place: Place) -> None:
    """Where more ranks go on than have saved (checkpoint.strict=false): mindformers loads the file of a rank's own number, which is missing
    here. Each file holds the whole model: a link to another's takes its place, in this rank's scratch folder.
    """
    name = native.resume_training
    if not isinstance(name, str):
        return
    saved, own = Path(native.load_checkpoint), f"rank_{place.rank}"
    if (saved / own).is_dir():
        return
    other = f"rank_{place.rank % len(list(saved.glob('rank_*')))}"
    folder = run.scratch(place.rank) / "resume"
    link = folder / own / name.replace("rank_0", own)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)  # of an earlier attempt
    link.symlink_to(saved / other / name.replace("rank_0", other))
    native.load_checkpoint = str(folder)


def device_target(run: RunDir) -> str:
    """CPU or Ascend, as mindformers.yaml says; read without mindformers, for what must be in place before its import."""
    import yaml

    native = yaml.safe_load(run.native.read_text(encoding="utf-8"))
    return str((native.get("context") or {}).get("device_target") or "Ascend")
