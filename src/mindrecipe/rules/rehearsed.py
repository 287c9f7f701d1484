"""A rehearsal without what only the whole run reads: what check accepts, it accepts with rehearse=mini."""

from __future__ import annotations

from dataclasses import replace

from mindrecipe.config.keys import knobs, with_value
from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import derive
from mindrecipe.derive.machine import Machine
from mindrecipe.derive.rehearse import Change, changes, mini
from mindrecipe.rules.unread import unread_keys


def rehearsed(config: RunConfig, machine: Machine) -> tuple[RunConfig, tuple[Change, ...]]:
    """``config`` as a rehearsal on ``machine``, and everything that was changed.

    A knob that the whole run reads and its rehearsal does not (launch.hosts, where no host is left) goes back to its default: whoever
    wrote it wrote nothing wrong. One that neither reads stays, and is told.
    """
    small, _ = mini(config, npus=machine.npu is not None or config.launch.mode == "simulate")
    before, whole = unread_keys(derive(small, machine)), derive(replace(config, parallel=replace(config.parallel, planned=False)), machine)
    for key in set(before).difference(unread_keys(whole)):
        small = with_value(small, key, knobs()[key].default)
    return small, tuple(changes(config, small))
