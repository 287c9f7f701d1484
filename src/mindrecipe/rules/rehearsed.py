"""A rehearsal without what only the whole run reads: what check accepts, it accepts with rehearse=mini."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mindrecipe.config.keys import knobs
from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import Derived, derive
from mindrecipe.derive.machine import Machine
from mindrecipe.derive.rehearse import Change, changes, mini
from mindrecipe.rules.unread import UNREAD


def rehearsed(config: RunConfig, machine: Machine) -> tuple[RunConfig, tuple[Change, ...]]:
    """``config`` as a rehearsal on ``machine``, and everything that was changed.

    A knob that the whole run reads and its rehearsal does not (launch.hosts, where no host is left) goes back to its default: whoever
    wrote it wrote nothing wrong. One that neither reads stays, and is told.
    """
    small, _ = mini(config, npus=machine.npu is not None or config.launch.mode == "simulate")
    before, whole = _unread(derive(small, machine)), derive(replace(config, parallel=replace(config.parallel, planned=False)), machine)
    for key in before - _unread(whole):
        section, _, name = key.partition(".")
        default: Any = knobs()[key].default
        small = replace(small, **{section: replace(getattr(small, section), **{name: default})})
    return small, tuple(changes(config, small))


def _unread(d: Derived) -> set[str]:
    """Knobs that are not at their defaults, and that nothing reads."""
    found = set()
    for key, reader in UNREAD.items():
        section, _, name = key.partition(".")
        if getattr(getattr(d.written, section), name) != knobs()[key].default and not reader.read(d):
            found.add(key)
    return found
