"""What a kept measurement is of: not the words that were typed, but the configuration and the data they make, and the versions it ran
with.

A recipe or a text that was edited, or a package that was upgraded, makes another one of the same words.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

Identity = dict[str, Any]


def identity_of(words: Sequence[str]) -> Identity:
    """Of a training of ``words``: a hash of all that they resolve to but its name and place, that of its data, and versions. UserError
    for words that can't be read and files that are not there.

    Composing takes about 0.3 s. The data is not built: its files are hashed, each once (data/digests.py), as its training would do.
    """
    from mindrecipe.freeze import config_hash
    from mindrecipe.lock import versions
    from mindrecipe.prepare import fingerprint
    from mindrecipe.run import Run

    derived = Run.from_overrides(list(words)).derived
    measured = [config_hash(derived), *(dataclasses.asdict(part) for part in (derived.config.launch, derived.config.monitor))]
    told = json.dumps(measured, sort_keys=True, default=str)
    return {"config": hashlib.sha256(told.encode()).hexdigest(), "data": fingerprint(derived), "versions": versions()}


def changed(kept: Mapping[str, Any] | None, now: Mapping[str, Any], data: str | None) -> str | None:
    """In words, what has changed since ``kept``; None: nothing. ``data`` is what was really trained on (lock.json, dataset_hash): a file
    may have been edited, and edited back, around the start of the training.
    """
    if not kept:
        return "it does not say of what configuration and versions it is"
    left, right = kept["versions"], now["versions"]
    other = [f"{name} {left.get(name)}, now {right.get(name)}" for name in {**left, **right} if left.get(name) != right.get(name)]
    if data != now["data"]:
        other.insert(0, "the same words made another data set (was a file of it edited?)")
    if kept["config"] != now["config"]:
        other.insert(0, "the same words made another configuration (was a recipe edited?)")
    return f"then: {'; '.join(other)}" if other else None
