"""Examples of rules carried out: derived on a machine that is the same everywhere, with the data they speak of."""

from __future__ import annotations

from dataclasses import replace

from mindrecipe.config.compose import compose
from mindrecipe.data.spec import DataFacts
from mindrecipe.derive import Derived, derive
from mindrecipe.derive.machine import Machine
from mindrecipe.derive.surroundings import Unknown
from mindrecipe.rules.registry import Example

#: a laptop
_MACHINE = Machine(npu=None, npu_count=0, memory_bytes=16 * 2**30, cores=2)


def derived_of(example: Example) -> Derived:
    """What follows from ``example``."""
    return derive(compose(example.overrides).config, machine_of(example), facts_of(example))


def machine_of(example: Example) -> Machine:
    """The machine that ``example`` supposes."""
    environment = dict(setting.split("=", 1) for setting in example.environment)
    around = _Supposed(example)
    npus = 8 if example.npu else 0
    machine = replace(_MACHINE, npu=example.npu, npu_count=npus, cpu_count=example.cpu_count, surroundings=around)
    return replace(machine, environment=environment, packages=dict(example.packages))


class _Supposed(Unknown):
    """Surroundings that lack what an example says."""

    def __init__(self, example: Example) -> None:
        self._example = example

    def has(self, pattern: str) -> bool:
        return pattern not in self._example.lacks

    def has_module(self, name: str) -> bool:
        return self.has(name)

    def knows(self, host: str) -> bool:
        return self.has(host)

    def listens(self, port: int) -> bool:
        return str(port) in self._example.lacks

    def room(self, folder: str) -> int | None:
        return self._example.room


def facts_of(example: Example) -> DataFacts | None:
    """The data set that ``example`` supposes; None where it needs none."""
    if example.rows is None:
        return None
    return DataFacts(
        train_files=("train.mindrecord",),
        heldout_files=(),
        columns=("input_ids",),
        train_rows=example.rows,
        heldout_rows=0,
        train_tokens=example.rows,
        heldout_tokens=0,
        unigram_entropy=None,
        fingerprint="",
    )
