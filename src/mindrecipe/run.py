"""Run: the single object, read top to bottom like the flow: compose, derive, check, lower, freeze, launch.

    run = Run.from_overrides(["+model=llama2_tiny", "schedule.total_steps=50"])
    for finding in run.check(): ...
    outcome = run.launch()

A Run is immutable; each stage that learns something returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindrecipe import rules
from mindrecipe.config.compose import Composed, compose_and_find, require_choice
from mindrecipe.config.findings import Finding, raise_errors
from mindrecipe.config.provenance import Provenance
from mindrecipe.config.schema import RunConfig
from mindrecipe.derive import PLANNED, Derived, derive
from mindrecipe.derive.machine import Machine, this_machine
from mindrecipe.derive.rehearse import Change
from mindrecipe.errors import UserError
from mindrecipe.lower import Place, lower
from mindrecipe.rules.rehearsed import rehearsed

if TYPE_CHECKING:  # data, freezing and launching are imported where they are asked for: a check needs none of them
    from mindrecipe.data.progress import Progress
    from mindrecipe.data.spec import DataFacts
    from mindrecipe.launch import Outcome
    from mindrecipe.resume import Start


@dataclass(frozen=True, slots=True)
class Run:
    """One training run: as written (``config``), as it follows (``derived``), and where each value was written (``provenance``)."""

    config: RunConfig
    derived: Derived
    machine: Machine
    provenance: Provenance
    choices: dict[str, str]
    rehearsed: tuple[Change, ...] = ()

    @classmethod
    def from_overrides(cls, overrides: list[str], *, machine: Machine | None = None) -> Run:
        """Compose and derive. UserError(s) for everything that can't be read; rules are a matter of :meth:`check`."""
        composed, findings = compose_and_find(overrides)
        machine = machine or this_machine()
        if any(finding.severity == "error" for finding in findings):
            raise_errors([*findings, *_further_errors(composed, findings, machine)])
        require_model(composed)
        composed = _named(composed)
        config, changed = composed.config, tuple[Change, ...]()
        if config.run.rehearse is not None:
            config, changed = rehearsed(config, machine)
        derived = derive(config, machine, kept=_kept(config, composed.provenance))
        return cls(config, derived, machine, composed.provenance, composed.choices, changed)

    def with_dataset(self, facts: DataFacts) -> Run:
        """The same run once its data set is known: steps an epoch, total and warm-up steps follow."""
        return replace(self, derived=derive(self.config, self.machine, facts, self.derived.kept))

    def check(self) -> list[Finding]:
        """All findings of all rules, worst first; last what a rehearsal changed."""
        found = rules.check(self.derived, self.provenance)
        return [*found, *([rehearsal(self.rehearsed)] if self.rehearsed else [])]

    def require_sound(self) -> list[Finding]:
        """Raise the errors among the findings, all together; return the rest."""
        findings = self.check()
        raise_errors(findings)
        return findings

    def lower(self, place: Place | None = None) -> dict[str, Any]:
        """mindformers' native configuration; without ``place`` with relative paths, for reading and export."""
        return lower(self.derived, place or self.export_place())

    def export_place(self) -> Place:
        """Paths for a configuration that is taken elsewhere: its MindRecords where they are known, else a name to fill in."""
        data = self.derived.config.dataset
        known = self.derived.dataset.train_files if self.derived.dataset else tuple(data.files) if data.source == "mindrecord" else ()
        return Place(output_dir="./output", train_files=known or ("./dataset/train.mindrecord",), load=self.config.checkpoint.load)

    def prepare(self, on_progress: Callable[[Progress], None] = lambda _: None) -> Run:
        """The same run with its data set found in the cache or built now. UserError for every fault of its files."""
        from mindrecipe.prepare import prepare

        return self.with_dataset(prepare(self.derived, on_progress))

    def freeze(self, path: Path | None = None, start: Start | None = None) -> Path:
        """Write the run directory (see freeze.py) and return its path; without ``path`` a new one under run.root.

        ``start`` None reads checkpoint.resume and checkpoint.load. The data set is prepared if it is not yet.
        """
        from mindrecipe.freeze import exists, freeze, in_new_dir
        from mindrecipe.lock import lock
        from mindrecipe.resume import decide

        if self.derived.dataset is None:
            return self.prepare().freeze(path, start)
        start = start or decide(self.derived)
        overrides, facts = self.provenance.overrides, self.derived.dataset

        def write(target: Path) -> None:
            place = Place(output_dir=str(target), train_files=facts.train_files, resume=start.resume, load=start.load)
            locked = lock(self.derived, self.machine, overrides, self.choices, start.resume, target)
            freeze(target, self.derived, overrides, self.lower(place), locked)

        if path is not None:
            try:
                write(path.absolute())
            except FileExistsError as fault:
                raise exists(path) from fault
            return path.absolute()
        return in_new_dir(self.derived, write)

    def freeze_again(self, path: Path, start: Start) -> None:
        """Let the run directory ``path`` of this run start elsewhere: its native configuration and the ``resume`` of its lock."""
        from mindrecipe.freeze import freeze_start

        facts = self.derived.dataset
        assert facts is not None, "a run that was started has its data set"
        place = Place(output_dir=str(path), train_files=facts.train_files, resume=start.resume, load=start.load)
        freeze_start(path, self.lower(place), start.resume)

    def launch(self) -> Outcome:
        """Check, prepare the data, freeze and launch, as `train` does. UserError before anything is written."""
        from mindrecipe.execute import execute

        return execute(self)


def _kept(config: RunConfig, provenance: Provenance) -> frozenset[str]:
    """What a planned layout must not replace: what was set, be it to the default."""
    return frozenset(filter(provenance.is_set, PLANNED)) if config.parallel.planned else frozenset()


def _named(composed: Composed) -> Composed:
    """A run without a name of its own is called after its recipe, if it has one (after its model otherwise: derive)."""
    recipe = composed.choices.get("recipe")
    if composed.config.run.name is not None or recipe in (None, "None"):
        return composed
    name = str(recipe).replace("/", "_")
    return replace(composed, config=replace(composed.config, run=replace(composed.config.run, name=name)))


def _further_errors(composed: Composed, findings: list[Finding], machine: Machine) -> list[Finding]:
    """What the rules say beside ``findings`` of the configuration, of keys whose value is not a stand-in: all faults are told at once.

    What is estimated of the whole configuration would be of the stand-ins too.
    """
    if composed.config.model.family is None:
        return []
    doubtful = {key for finding in findings for key in finding.keys}
    found = rules.check(derive(composed.config, machine, kept=_kept(composed.config, composed.provenance)), composed.provenance)
    return [finding for finding in found if not doubtful & set(finding.keys) and finding.rule != "memory.estimate"]


def rehearsal(changed: tuple[Change, ...]) -> Finding:
    """What a rehearsal is not: everything that it changed."""
    return Finding(
        rule="run.rehearse",
        severity="advice",
        what=f"this is a rehearsal, {len(changed)} knobs are not the recipe's: {'; '.join(map(str, changed))}",
        keys=("run.rehearse",),
        why="it is to tell faults of the environment from faults of the recipe, not to give results",
    )


def require_model(composed: Composed) -> None:
    """Refuse a run without a model: nothing follows from it."""
    if composed.config.model.family is None:
        require_choice(composed, "model")
        raise UserError("model.family is not set", where=composed.provenance.locate("model.family"), mend="model.family=llama")
