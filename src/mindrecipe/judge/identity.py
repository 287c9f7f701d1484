"""What a kept measurement is of: not the words that were typed, but the configuration they make and the versions it ran with.

A recipe that was edited, or a package that was upgraded, makes another one of the same words.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

Identity = dict[str, Any]


def identity_of(words: Sequence[str]) -> Identity:
    """Of a training of ``words``: a hash of all that they resolve to but its name and place, and versions. UserError for words that
    can't be read. Composing takes about 0.3 s."""
    from mindrecipe.freeze import config_hash
    from mindrecipe.lock import versions
    from mindrecipe.run import Run

    derived = Run.from_overrides(list(words)).derived
    measured = [config_hash(derived), *(dataclasses.asdict(part) for part in (derived.config.launch, derived.config.monitor))]
    told = json.dumps(measured, sort_keys=True, default=str)
    return {"config": hashlib.sha256(told.encode()).hexdigest(), "versions": versions()}


def changed(kept: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    """In words, what has changed since ``kept``; None: nothing."""
    if not kept:
        return "it does not say of what configuration and versions it is"
    left, right = kept["versions"], now["versions"]
    other = [f"{name} {left.get(name)}, now {right.get(name)}" for name in {**left, **right} if left.get(name) != right.get(name)]
    if kept["config"] != now["config"]:
        other.insert(0, "the same words made another configuration (was a recipe edited?)")
    return f"then: {'; '.join(other)}" if other else None
