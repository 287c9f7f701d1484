"""Our configuration -> mindformers' native one: a pure function, dict out, one module a section.

What comes out is a configuration that stock mindformers 1.9.0 accepts: a user can leave at any time. `native.<key>` is
merged over it last, untouched; `omit` leaves keys unwritten (residue.py).
"""

from __future__ import annotations

from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.lower import checkpoint, dataset, machine, model, optimization, parallel, runner
from mindrecipe.lower.place import Place
from mindrecipe.lower.residue import finish, merge

__all__ = ["Place", "lower", "merge"]


def lower(derived: Derived, place: Place) -> dict[str, Any]:
    """The native configuration of ``derived``, with its files at ``place``; keys in the order mindformers' own YAMLs have."""
    native: dict[str, Any] = {
        "seed": derived.config.run.seed,
        "output_dir": place.output_dir,
        "run_mode": "train",
        "use_legacy": derived.family.architecture == "legacy",
        "use_parallel": derived.config.parallel.mode != "standalone",
    }
    native |= checkpoint.lower(derived, place)
    native["trainer"] = {"type": "CausalLanguageModelingTrainer", "model_name": derived.config.run.name}
    native["runner_config"] = runner.lower(derived)
    native |= optimization.lower(derived)
    native |= dataset.lower(derived, place)
    native |= parallel.lower(derived, place)
    native["model"] = model.lower(derived)
    native["context"] = machine.lower(derived)
    native["callbacks"] = [*runner.callbacks(derived, place), *checkpoint.callbacks(derived, place)]
    native |= runner.watching(derived, place)
    return finish(native, derived.config.native, derived.config.omit)
