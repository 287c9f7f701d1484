"""parallel=planned: what was set stays, be it to the default; what can't is refused by name."""

from __future__ import annotations

import pytest

from mends import errors, quick, run_of
from mindrecipe.data.spec import DataFacts

pytestmark = pytest.mark.usefixtures("here")
PLANNED = ("+model=llama2_7b", "parallel=planned", "amp=O2", "device=ascend_910b", "parallel.global_batch_size=64")
SMALL = ("parallel.model_parallel=4",)  # less to search


@pytest.mark.parametrize(
    "words, section, key, value",
    [
        (("recompute=selective",), "recompute", "policy", "selective"),
        (("recompute=attention",), "recompute", "policy", "attention"),
        (("recompute=full",), "recompute", "policy", "full"),
        (("recompute=none", "dataset.batch_size=1"), "recompute", "policy", "none"),
        (("recompute.policy=none", "dataset.batch_size=4"), "recompute", "policy", "none"),
        (("parallel.pipeline_stage=1",), "parallel", "pipeline_stage", 1),
        (("parallel.pipeline_stage=2",), "parallel", "pipeline_stage", 2),
        (("parallel.context_parallel=1",), "parallel", "context_parallel", 1),
        (("parallel.optimizer_parallel=false",), "parallel", "optimizer_parallel", False),
        (("parallel.optimizer_parallel=true",), "parallel", "optimizer_parallel", True),
        (("parallel.use_seq_parallel=false",), "parallel", "use_seq_parallel", False),
        (("parallel.use_seq_parallel=true",), "parallel", "use_seq_parallel", True),
        (("dataset.batch_size=1",), "dataset", "batch_size", 1),
        (("model.offset=0", "model.num_layers=31", "parallel.pipeline_stage=1"), "model", "offset", 0),
    ],
)
def test_what_was_set_stays(words: tuple[str, ...], section: str, key: str, value: object) -> None:
    run = quick(*PLANNED, *SMALL, *words)
    assert run.derived.plan_fault is None
    assert getattr(getattr(run.derived.config, section), key) == value
    assert [finding.what for finding in run.check() if finding.severity == "error"] == []


def test_the_default_of_an_axis_is_no_less_set_than_another_value() -> None:
    free, kept = (quick("+model=llama2_7b", *PLANNED[1:], *more).derived.config.parallel for more in ((), ("parallel.model_parallel=1",)))
    assert free.model_parallel > 1 and kept.model_parallel == 1
    assert run_of(*PLANNED, "parallel.model_parallel=1").derived.config.parallel.model_parallel == 1, "through Hydra as well"


def test_an_option_that_nobody_chose_was_not_set() -> None:
    assert not quick(*PLANNED).provenance.is_set("recompute.policy")
    assert quick(*PLANNED, "recompute=none").provenance.is_set("recompute.policy")
    assert quick(*PLANNED, "recompute.policy=none").provenance.is_set("recompute.policy")
    recipe = quick("+recipe=llama2_70b_pretrain_64x64g", "launch.master_addr=10.0.0.1")
    assert recipe.provenance.is_set("parallel.pipeline_stage") and not recipe.provenance.is_set("parallel.context_parallel")


@pytest.mark.parametrize("word, says", [("model.offset=[1,-1]", "model.offset=[1, -1]"), ("recompute.layers=[1]", "recompute.layers")])
def test_what_can_not_stay_is_refused_by_name(word: str, says: str) -> None:
    assert any(says in finding.what for finding in errors(*PLANNED, *SMALL, word, make=quick))


def test_what_no_mesh_has_is_named() -> None:
    finding = next(each for each in errors(*PLANNED, "parallel.data_parallel=3", make=quick) if each.rule == "mesh.planned")
    assert "no mesh of 8 devices has what was set: parallel.data_parallel=3" in finding.what


def test_what_stays_stays_once_the_data_are_known() -> None:
    run = quick(*PLANNED, "parallel.model_parallel=1", "dataset.batch_size=1")
    facts = DataFacts(
        train_files=("a",),
        heldout_files=(),
        columns=("input_ids",),
        train_rows=10_000,
        heldout_rows=0,
        train_tokens=1,
        heldout_tokens=0,
        unigram_entropy=None,
        fingerprint="x",
    )
    assert run.with_dataset(facts).derived.config.parallel == run.derived.config.parallel
