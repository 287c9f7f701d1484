"""The proof of one or many imports: the written recipe, composed by Hydra and lowered, against the original, both read by mindformers.

mindformers is imported in a process of its own (stock.py), once for all files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.bridge.importer import Imported
from mindrecipe.bridge.lowered import derived_of, native_of
from mindrecipe.bridge.write import recipe_text
from mindrecipe.config.compose import compose
from mindrecipe.config.search_path import use_config_dir
from mindrecipe.errors import UserError
from mindrecipe.freeze import to_yaml

#: importing mindformers takes seconds, a file some milliseconds
_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """``differences``: dotted key, original's and recipe's value. The refusals: why stock mindformers can't load the one or the other."""

    differences: tuple[dict[str, Any], ...]
    original_refusal: str | None
    recipe_refusal: str | None

    @property
    def equal(self) -> bool:
        """Whether mindformers reads the same from both; of a file that it can't load, the mended one counts."""
        return not self.differences and self.recipe_refusal is None


def verify(imports: Sequence[Imported]) -> list[Verdict]:
    """A verdict for each import. UserError where mindformers itself can't be imported."""
    with tempfile.TemporaryDirectory(prefix="mindrecipe-verify-") as folder:
        jobs = []
        for number, imported in enumerate(imports):
            lowered, target = Path(folder) / f"{number}-lowered.yaml", Path(folder) / f"{number}-target.yaml"
            lowered.write_text(to_yaml(round_trip(imported, Path(folder))), encoding="utf-8")
            target.write_text(to_yaml(imported.target), encoding="utf-8")
            changed = _changed(imported)
            job = {"original": str(imported.original.path.resolve()), "target": str(target), "lowered": str(lowered), "changed": changed}
            jobs.append(job)
        return [
            Verdict(tuple(each["differences"]), each["original_refusal"], each["recipe_refusal"]) for each in _ask_stock(jobs, Path(folder))
        ]


def _changed(imported: Imported) -> list[str]:
    """Keys that the import said it changed: those can't be compared with the file itself."""
    notes = [note for kind in ("mended", "renamed", "wrong") for note in imported.of(kind)]
    # what a renamed key became differs from the file as well
    return sorted({key for note in notes for key in (note.key, note.mend if note.kind == "renamed" else None) if key})


def round_trip(imported: Imported, folder: Path) -> dict[str, Any]:
    """The native configuration of the recipe's text, through Hydra: everything on the way takes part."""
    recipes = folder / "recipes"
    recipes.mkdir(exist_ok=True)
    # its own name may need quotes in Hydra's grammar
    (recipes / "proven.yaml").write_text(recipe_text(imported), encoding="utf-8")
    use_config_dir(folder)
    try:
        composed = compose(["+recipe=proven"])
    finally:
        use_config_dir(None)
    return native_of(derived_of(composed.config))


def _ask_stock(jobs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    environment = os.environ | {"LOCAL_DEFAULT_PATH": str(folder), "GLOG_v": "4"}
    done = subprocess.run(
        [sys.executable, "-m", "mindrecipe.bridge.stock"],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"--verify needs mindformers, and it can't be used here: {last}", mend="pip install mindspore==2.9.0 mindformers==1.9.0"
        )
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers
