"""recompute_config -> the knobs of recompute."""

from __future__ import annotations

from typing import Any

from mindrecipe.bridge.raise_.raised import Raised

_CONFIG = "recompute_config"


def raise_(r: Raised) -> None:
    """Fill recompute.*; whole layers win over operators, as in mindformers."""
    for knob, default in (
        ("mp_comm_recompute", True),
        ("parallel_optimizer_comm_recompute", False),
        ("recompute_slice_activation", False),
        ("select_comm_recompute", False),
    ):
        r.take(f"recompute.{knob}", _CONFIG, knob, default=default)
    whole, select = r.get(_CONFIG, "recompute", default=False), r.get(_CONFIG, "select_recompute", default=False)
    if whole is True:
        r.put("recompute.policy", "full", _CONFIG, "recompute")
    elif _layers(whole):
        r.put("recompute.policy", "per_stage")
        r.put("recompute.layers", whole, _CONFIG, "recompute")
    elif select:
        r.put("recompute.policy", "selective", _CONFIG, "select_recompute")
        if isinstance(select, dict) or (isinstance(select, list) and all(isinstance(pattern, str) for pattern in select)):
            r.put("recompute.patterns", select, _CONFIG, "select_recompute")
    else:
        r.put("recompute.policy", "none", _CONFIG, "recompute")
    r.sources.setdefault((_CONFIG, "select_recompute"), "recompute.policy")


def _layers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, int | list) and not isinstance(item, bool) for item in value)
