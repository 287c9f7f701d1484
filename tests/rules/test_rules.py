"""Every rule objects to its examples that must fail and to none that must pass, and every mend it offers removes the objection."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from mends import LARGE, TINY, alternatives, assert_mends, errors, findings, quick, rules_of, run_of
from mindrecipe.derive import derive
from mindrecipe.rules import RULES
from mindrecipe.rules.examples import facts_of, machine_of
from mindrecipe.rules.registry import Example, Rule
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")
QWEN = ("+model=qwen3_8b", "parallel=semi_auto", "amp=O2")
STAGES = (*LARGE, "parallel.pipeline_stage=4", "parallel.micro_batch_num=4")
#: a mend that has a place to fill in can't be pasted as it is
TO_FILL_IN = {
    "launch.master_addr", "mesh.planned", "environment.paths", "environment.modules", "environment.port", "environment.host_name",
    "environment.disk",
}  # fmt: skip
#: what is wrong is not written in a recipe, nor is its mend
OUTSIDE = {"environment.leftovers", "environment.versions"}
#: changes more than one thing: other rules may speak of the pasted run
WIDE = {"mesh.ignored_axes", "launch.workers", "dataset.files"}
#: what they object to, other rules object to as well, in their own terms
WITH_OTHERS: dict[str, set[str]] = {
    "native.text_for_number": {"native.replaces"},
    "native.refused": {"native.replaces", "native.ignored_key"},
    "mesh.head_unsplit": {"mesh.optimizer_rest"},
    "watch.loss_skip": {"native.sink_size"},
}
FAILS = [(rule, example) for rule in RULES.values() for example in rule.fails]
PASSES = [(rule, example) for rule in RULES.values() for example in rule.passes]


def _maker(example: Example) -> Any:
    """A function overrides -> Run on the machine and with the data that ``example`` speaks of."""

    def make(*overrides: str) -> Run:
        run, machine = quick(*overrides), machine_of(example)
        return dataclasses.replace(run, derived=derive(run.config, machine, facts_of(example)), machine=machine)

    return make


def _ids(given: list[tuple[Rule, Example]]) -> list[str]:
    return [f"{rule.name}-{number}" for number, (rule, _) in enumerate(given)]


@pytest.mark.parametrize(("rule", "example"), FAILS, ids=_ids(FAILS))
def test_what_must_fail_fails_and_its_mends_work(rule: Rule, example: Example) -> None:
    overrides, make = tuple(example.overrides), _maker(example)
    found = [finding for finding in findings(*overrides, make=make) if finding.rule == rule.name]
    assert found, "the rule says nothing"
    also = WITH_OTHERS.get(rule.name, set()) | ({"memory.estimate"} - {rule.name})  # that an example is large is not its point
    assert set(rules_of(*overrides, make=make)) - also == {rule.name}
    assert all(finding.severity in (rule.severity, "warning") for finding in found)
    for finding in found:
        key, where = finding.keys[0].rpartition(".")[2], finding.where
        assert any(name.rpartition(".")[2] in finding.what or name.partition(".")[0] in finding.what for name in finding.keys), (
            key,
            finding,
        )
        assert where and (where.startswith(("command line: ", "the ")) or ".yaml:" in where)
    if rule.name in TO_FILL_IN:
        assert all(re.search(r"=\[?<.*>", finding.mend or "") for finding in found)
    elif rule.name in OUTSIDE:
        assert all(finding.mend for finding in found)
    elif rule.name in WIDE:
        for finding in found:
            for mend in alternatives(finding.mend):
                keys = {word.partition("=")[0] for word in mend}
                kept = [text for text in overrides if text.lstrip("+").partition("=")[0] not in keys]
                assert finding.what not in [left.what for left in findings(*kept, *mend, make=make)]
            assert alternatives(finding.mend)
    else:
        assert_mends(*overrides, make=make, severity=found[0].severity)


@pytest.mark.parametrize(("rule", "example"), PASSES, ids=_ids(PASSES))
def test_what_must_pass_passes(rule: Rule, example: Example) -> None:
    assert rule.name not in rules_of(*example.overrides, make=_maker(example))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_says_when_why_and_whence(rule: Rule) -> None:
    assert rule.name.count(".") == 1 and rule.fails and rule.passes
    assert rule.condition.endswith(".") and rule.condition.count(".") <= 2
    assert rule.why and not rule.why.endswith(".") and rule.source
    assert not re.search(r"\b(RULES|FACTS|CASES)\b|\b[CF]\d\d?\b", rule.source + rule.why), "a source that a reader has not"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_reads_what_it_says(rule: Rule) -> None:
    """The knobs that its examples make it look at: a rule about everything says so with a star."""
    if rule.reads == ("*",):
        return
    read: set[str] = set()
    for example in (*rule.fails, *rule.passes):
        list(rule.check(_watched(_maker(example)(*example.overrides), read)))
    assert read == set(rule.reads)


def _watched(run: Run, read: set[str]) -> Any:
    """The derived run with every knob that is looked at noted in ``read``."""

    class Section:
        def __init__(self, name: str, real: Any) -> None:
            self._name, self._real = name, real

        def __getattr__(self, name: str) -> Any:
            read.add(f"{self._name}.{name}")
            return getattr(self._real, name)

    class Config:
        def __init__(self, real: Any) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            value = getattr(self._real, name)
            if isinstance(value, dict):
                read.add(name)
                return value
            return Section(name, value)

    class Watched:
        def __getattr__(self, name: str) -> Any:
            value = getattr(run.derived, name)
            return Config(value) if name in ("config", "written") else value

    return Watched()


def test_a_plan_that_is_none() -> None:
    (finding,) = errors("+model=llama2_70b", "parallel=planned", "amp=O2", make=quick)
    assert finding.rule == "mesh.planned" and "nothing fits" in finding.what and "launch.nodes=" in str(finding.mend)
    (finding,) = errors("+model=llama2_7b", "parallel=planned", make=quick)
    assert "float32" in finding.what and finding.mend == "parallel=semi_auto"


def test_loopback_of_several_hosts() -> None:
    (finding,) = errors(*LARGE, "launch.nodes=2", make=quick)
    assert finding.rule == "launch.master_addr" and finding.mend == "launch.master_addr=<address of the first host>"
    assert errors(*LARGE, "launch.nodes=2", "launch.master_addr=host-0", make=quick) == []
    assert errors(*LARGE, "launch.nodes=2", "launch.master_addr=localhost", make=quick)


SOUND: list[tuple[str, ...]] = [
    (TINY,),
    ("+model=qwen3_tiny",),
    LARGE,
    QWEN,
    STAGES,
    (TINY, "parallel=data", "launch.workers=2"),
    (TINY, "amp=O2"),
    (TINY, "launch.env.A=null"),
    (TINY, "amp=O3"),
    ("+model=qwen3_tiny", "amp=O3"),
    (*LARGE, "device=ascend_910a", "parallel.model_parallel=2", "recompute=full"),
    # the published DeepSeek-V3 layout
    (*LARGE, "model.num_layers=61", "parallel.pipeline_stage=8", "parallel.micro_batch_num=8", "parallel.pipeline_interleave=2", "recompute=full",
     "model.offset=[[1,1,1,1,1,1,1,1],[1,1,1,1,1,1,1,-2]]"),
    (*LARGE, "model.num_heads=32", "model.num_kv_heads=8", "parallel.model_parallel=8"),
    # the mesh rule is not for data parallel and stand-alone runs
    (TINY, "parallel=data", "launch.workers=7"),
    # every rank reads its own shard, the strategy is filled in
    (*LARGE, "parallel.full_batch=false"),
    (*LARGE, "parallel.context_parallel=2", "parallel.context_parallel_algo=ulysses_cp"),
    (*LARGE, "recompute=per_stage", "recompute.layers=[16]"),
    (TINY, "recompute=selective", r"recompute.patterns=['feed_forward\.mul','.*\.norm']"),
    (TINY, "recompute.select_comm_recompute=true"),
    (TINY, "dataset.num_shards=2", "dataset.shard_id=1"),
    (TINY, "optimizer.type=Momentum", "optimizer.extra.momentum=0.9"),
    (TINY, "optimizer.type=my_optimizer", "run.imports=[my_package]"),
    (TINY, "schedule.type=my_schedule", "run.imports=[my_package]"),
    (*LARGE, "launch.nodes=1250", "launch.master_addr=10.0.0.1", "parallel.model_parallel=8", "parallel.pipeline_stage=5",
     "parallel.micro_batch_num=20", "model.num_layers=40", "launch.cluster_time_out=900",
     "parallel.optimizer_weight_shard_size=2"),
]  # fmt: skip


@pytest.mark.parametrize("overrides", SOUND, ids=range(len(SOUND)))
def test_nothing_is_said_of_a_sound_run(overrides: tuple[str, ...]) -> None:
    assert rules_of(*overrides) == {}


def test_mends_work_through_hydra_as_well() -> None:
    for name in ("mesh.product", "mesh.layers", "schedule.lr_end", "recompute.pattern_dots", "dataset.files"):
        rule = RULES[name]
        if name not in WIDE:
            assert_mends(*rule.fails[0].overrides, make=run_of, severity=rule.severity)


def test_doubled_backslashes() -> None:
    """What a shell or YAML made of one: mindformers would look for a name that ends in a backslash."""
    found = {f.rule: f for f in findings(TINY, "recompute=selective", r"recompute.patterns=['feed_forward\\.mul']", make=quick)}
    assert set(found) == {"recompute.patterns", "recompute.pattern_dots"}
    assert alternatives(found["recompute.pattern_dots"].mend) == [[r'recompute.patterns=["feed_forward\.mul"]']]


def test_the_worst_comes_first_and_the_report_is_stable() -> None:
    overrides = (*LARGE, "parallel.micro_batch_num=16", "schedule.lr_end=1", "memory.headroom=0")
    severities = [finding.severity for finding in findings(*overrides, make=quick)]
    assert severities == sorted(severities, key=["error", "warning", "advice"].index) and len(severities) == 3
    assert findings(*overrides, make=quick) == findings(*overrides, make=quick)
