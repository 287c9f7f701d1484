"""Everything about a run that can be known before it starts, one small function a rule."""

from __future__ import annotations

from mindrecipe.config.findings import Finding
from mindrecipe.config.provenance import Provenance
from mindrecipe.derive import Derived
from mindrecipe.rules import (  # noqa: F401 - they register
    callbacks,
    checkpoint,
    data,
    device,
    environment,
    estimate,
    experts,
    hccl,
    launch,
    mcore,
    mesh,
    model,
    native,
    native_data,
    native_types,
    optimizer,
    optimizer_parallel,
    pipeline,
    planned,
    precision,
    profile,
    recompute,
    refused,
    schedule,
    schedulers,
    silence,
    tensor,
    this_host,
    traps,
    unknown,
    unread,
    watch,
)
from mindrecipe.rules.registry import RULES, apply

__all__ = ["RULES", "check"]


def check(derived: Derived, provenance: Provenance) -> list[Finding]:
    """All findings of all rules on a derived run, worst first."""
    return apply(RULES.values(), derived, provenance)
