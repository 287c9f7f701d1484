"""Checkpoints of steps that a run goes back behind: they must not be what it goes on from next, nor count among those that are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.find import Checkpoint

FOLDER = "aside"


def set_aside(root: Path, after: int, world: int, seen: Iterable[Checkpoint] = ()) -> tuple[Path, list[int]] | None:
    """Move all checkpoints below ``root`` of steps beyond ``after`` into ``aside_<number>`` beside them: where, and which steps.

    That folder is a checkpoint folder like ``root``: whoever wants to can go on from it. What one of ``world`` ranks has not finished is
    deleted: it can't be gone on from. ``seen`` are checkpoints that may have no manifests. None where there was nothing to move.
    """
    named = {step: ranks for step, ranks in manifest.read(root).items() if step > after}
    whole = {step: ranks for step, ranks in named.items() if set(range(world)) <= set(ranks)}
    for step in named.keys() - whole.keys():
        for each in named[step].values():
            manifest.delete(root, each)
    first = [manifest.path_of(root, each) for ranks in whole.values() for each in ranks.values()]  # without it a checkpoint is none
    files = {root / name for ranks in whole.values() for each in ranks.values() for name in each.files}
    unnamed = [each for each in seen if each.step > after and each.step not in named]
    files |= {path for each in unnamed for path in each.files}
    moved = [*first, *sorted(_folder_or_file(path) for path in files)]
    moved = [path for path in dict.fromkeys(moved) if path.exists()]
    if not moved:
        return None
    number = 1
    while (place := root / f"{FOLDER}_{number}").exists():
        number += 1
    for path in moved:
        target = place / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)
    return place, sorted({*whole, *(each.step for each in unnamed)})


def steps_aside(root: Path) -> set[int]:
    """The steps whose checkpoints have been set aside below ``root``."""
    return {step for place in root.glob(f"{FOLDER}_*") for step in manifest.read(place)}


def _folder_or_file(path: Path) -> Path:
    """What mindformers saves into the folder of an iteration goes with it."""
    return path.parent if path.parent.name.startswith("iteration_") else path
