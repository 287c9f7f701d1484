"""A rule is one small function: what it reads, what is wrong, why in terms of what MindSpore would do, and the mend.

    @rule(
        "mesh.micro_batches",
        "error",
        "the pipeline can't be filled: compilation stops",
        outcome="stops",
        source="run: passes mindformers' checks and stops when the graph is compiled",
        reads="parallel: mode pipeline_stage micro_batch_num",
        fails=[f"{LARGE} parallel.pipeline_stage=2 parallel.micro_batch_num=1"],
        passes=[f"{LARGE} parallel.pipeline_stage=2 parallel.micro_batch_num=2"],
    )
    def micro_batches(d: Derived) -> Iterator[Problem]:
        \"""A pipeline has fewer micro batches than stages.\"""

Rules see a derived run and yield problems; they never raise. They are pure: no files, no devices, no mindspore. Their examples
are run as tests (tests/rules/test_rules.py), printed by `mindrecipe rules show`, and make up docs/rules.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mindrecipe.config.findings import Finding, Severity, worst_first
from mindrecipe.config.provenance import Provenance
from mindrecipe.derive import Derived

#: what becomes of a run that a rule objects to
Outcome = Literal["stops", "ignored", "differs", "costs"]
OUTCOMES: dict[Outcome, str] = {
    "stops": "the run would end with an error",
    "ignored": "what is written would have no effect",
    "differs": "the run would train something else than written",
    "costs": "the run would do as written, at a cost",
}
#: what examples begin with: a model that trains on a CPU, and recipes of a cluster
TINY = "+model=llama2_tiny"
LARGE = "+model=llama2_7b parallel=semi_auto amp=O2"
QWEN = "+model=qwen3_8b parallel=semi_auto amp=O2"
STAGES = f"{LARGE} parallel.pipeline_stage=4 parallel.micro_batch_num=4"


@dataclass(frozen=True, slots=True)
class Problem:
    """What one rule found: the text with the values in it, the keys it is about, overrides that mend it.

    ``severity`` is the rule's where null. ``by_hand``: nothing is wrong where a model's own file says so (conf/model).
    ``where`` is the place of what is not written in a configuration.
    """

    what: str
    keys: tuple[str, ...]
    mend: str | None = None
    severity: Severity | None = None
    by_hand: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A command line without its first word, as it is typed. ``rows``: of the training set, where the rule needs to know.

    Where the rule looks at the machine: ``environment``, variables that were set; ``packages``, what is installed; ``lacks``, paths,
    modules and host names that are not there, and ports that are taken; ``room``, free bytes on its disks; ``npu``, its devices;
    ``cpu_count``, its cores.
    """

    text: str
    rows: int | None = None
    environment: tuple[str, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()
    lacks: tuple[str, ...] = ()
    room: int | None = None
    npu: str | None = None
    cpu_count: int | None = None

    @property
    def overrides(self) -> list[str]:
        """The overrides, one a word."""
        return shlex.split(self.text)


Check = Callable[[Derived], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """``name`` is section.subject, its id; ``condition`` says when it objects; ``why`` completes "because ...".

    ``source`` is where that is known from, ``reads`` the knobs it looks at, ``fails`` and ``passes`` are examples of both.
    """

    name: str
    severity: Severity
    why: str
    outcome: Outcome
    source: str
    reads: tuple[str, ...]
    fails: tuple[Example, ...]
    passes: tuple[Example, ...]
    check: Check

    @property
    def condition(self) -> str:
        """When the rule objects, as one sentence."""
        return " ".join((self.check.__doc__ or "").split())

    @property
    def can_be_silenced(self) -> bool:
        """An error that would stop the run in any case can't be talked away."""
        return self.severity != "error" or self.outcome != "stops"


RULES: dict[str, Rule] = {}


def rule(
    name: str,
    severity: Severity,
    why: str,
    *,
    outcome: Outcome,
    source: str,
    reads: str,
    fails: Sequence[str | Example],
    passes: Sequence[str | Example],
) -> Callable[[Check], Check]:
    """Register the decorated function under ``name``. ``reads``: "section: knob knob; section: knob"."""

    def register(check: Check) -> Check:
        if name in RULES:
            raise ValueError(f"two rules are called {name}")
        RULES[name] = Rule(name, severity, why, outcome, source, _keys(reads), _examples(fails), _examples(passes), check)
        return check

    return register


def _keys(reads: str) -> tuple[str, ...]:
    found = []
    for part in filter(None, (part.strip() for part in reads.split(";"))):
        section, _, knobs = part.partition(":")
        found += [f"{section}.{knob}" for knob in knobs.split()] or [section]
    return tuple(found)


def _examples(given: Sequence[str | Example]) -> tuple[Example, ...]:
    return tuple(each if isinstance(each, Example) else Example(each) for each in given)


def apply(rules: Iterable[Rule], derived: Derived, provenance: Provenance) -> list[Finding]:
    """All findings of ``rules``, worst first, each with the place its first written key was written.

    What ``rules.silence`` names is told as silenced, with its reason; with ``rules.strict`` warnings are errors.
    """
    silence, strict = reasons(derived), derived.config.rules.strict
    found = [
        _finding(each, problem, provenance, silence.get(each.name), strict)
        for each in rules
        for problem in each.check(derived)
        if not (problem.by_hand and provenance.is_of_a_model(problem.keys[0]))
    ]
    return worst_first(found)


def _finding(rule: Rule, problem: Problem, provenance: Provenance, reason: str | None, strict: bool) -> Finding:
    severity = problem.severity or rule.severity
    if reason is not None and (severity != "error" or rule.outcome != "stops"):
        severity = "silenced"
    elif strict and severity == "warning":
        severity = "error"
    return Finding(
        rule=rule.name,
        severity=severity,
        what=problem.what,
        keys=problem.keys,
        why=rule.why,
        where=next((place for place in map(provenance.locate, problem.keys) if place), problem.where),
        mend=problem.mend,
        reason=reason if severity == "silenced" else None,
    )


def reasons(derived: Derived) -> dict[str, str]:
    """Rule id -> reason, of ``rules.silence``: an id is written with its dot as one key, or as two mappings. null takes it back."""
    flat: dict[str, Any] = {}
    for key, value in derived.config.rules.silence.items():
        flat.update({f"{key}.{name}": reason for name, reason in value.items()} if isinstance(value, dict) else {str(key): value})
    return {name: str(reason) for name, reason in flat.items() if reason is not None}
