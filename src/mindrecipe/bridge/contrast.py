"""Two meanings contrasted: what changes in effect first, then knob by knob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.bridge.compare import MISSING, same
from mindrecipe.bridge.meaning import Meaning, comparable
from mindrecipe.config import keys
from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED


@dataclass(frozen=True, slots=True)
class Change:
    """``left`` and ``right`` of one knob or figure; MISSING where one side has none."""

    key: str
    left: Any
    right: Any
    unit: str | None = None

    @property
    def section(self) -> str:
        """The section the knob is of."""
        return self.key.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Contrast:
    """``effects``: figures that differ (global batch, steps, memory policy, ...); ``changes``: knobs that do.

    ``unread``: keys that differ and that training never reads; they do not count.
    """

    left: Meaning
    right: Meaning
    effects: tuple[Change, ...]
    changes: tuple[Change, ...]
    unread: tuple[Change, ...]

    @property
    def equal(self) -> bool:
        """Whether both mean the same run."""
        return not self.changes


def contrast(left: Meaning, right: Meaning) -> Contrast:
    """Compare two meanings; with a native YAML on one side, what those can say."""
    one, other = comparable(left, right)
    order = {key: place for place, key in enumerate(keys.knobs())}
    sections = [*keys.sections(), *keys.FREE]
    found = [
        Change(key, one.get(key, MISSING), other.get(key, MISSING), _unit(key))
        for key in sorted({*one, *other}, key=lambda key: (sections.index(key.partition(".")[0]), order.get(key, len(order)), key))
        if not same(one.get(key, MISSING), other.get(key, MISSING))
    ]
    # a knob that only one side reads follows from another one that differs
    found = [change for change in found if change.key not in order or MISSING not in (change.left, change.right)]
    unread = [change for change in found if change.key in left.unread or change.key in right.unread]
    changes = [change for change in found if change not in unread]
    mixed = left.native != right.native
    effects = _effects(left.derived, right.derived, mixed) if changes else []
    return Contrast(left, right, tuple(effects), tuple(changes), tuple(unread))


def _unit(key: str) -> str | None:
    knob = keys.knobs().get(key)
    return knob.doc.unit if knob else None


def _effects(left: Derived, right: Derived, mixed: bool) -> list[Change]:
    found = []
    mine, theirs = _figures(left), _figures(right)
    for name, (value, unit) in mine.items():
        other = theirs[name][0]
        # a native YAML can't say how many devices train data parallel, and what follows from that
        by_devices = name in ("devices", "global batch", "tokens a step") and not {
            left.config.parallel.mode,
            right.config.parallel.mode,
        } & {*SHARDED}
        if not same(value, other) and not (mixed and by_devices):
            found.append(Change(name, value, other, unit))
    return found


def _figures(derived: Derived) -> dict[str, tuple[Any, str | None]]:
    config = derived.config
    recompute = config.recompute
    policy = {"attention": "selective"}.get(recompute.policy, recompute.policy) + (f" {recompute.layers}" if recompute.layers else "")
    steps = derived.total_steps
    return {
        "global batch": (derived.global_batch_size, "sequences"),
        "tokens a step": (derived.tokens_per_step, "tokens"),
        "steps": (steps if steps is not None else f"{config.schedule.epochs} epoch{'s' if config.schedule.epochs > 1 else ''}", None),
        "warm-up": (derived.warmup_steps if derived.warmup_steps is not None else f"{config.schedule.warmup_ratio:g} of the steps", None),
        "devices": (derived.device_num, None),
        "parameters": (derived.parameters or None, None),
        "recomputation": (policy, None),
        "memory pool": (f"{config.memory.max_device_memory}, {config.memory.optimize_level}", None),
        "optimizer state sharded": (config.parallel.optimizer_parallel, None),
        "loss scale": (derived.loss_scale.kind, None),
    }
