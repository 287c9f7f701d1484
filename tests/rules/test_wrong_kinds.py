"""Values of a kind that is read nowhere: each ends in errors that name its key, never in a traceback or in a loop."""

from __future__ import annotations

import pytest

from mends import LARGE, TINY, assert_mends, errors, quick
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.memory import price
from mindrecipe.plan.of_run import job_of

pytestmark = pytest.mark.usefixtures("here")
QWEN = ("+model=qwen3_8b", "parallel=semi_auto", "amp=O2")
FOUR = (*LARGE, "parallel.pipeline_stage=4", "parallel.micro_batch_num=4")
TWO = (*LARGE, "parallel.pipeline_stage=2", "parallel.micro_batch_num=2")

LISTS: list[tuple[tuple[str, ...], str, str]] = [
    ((*LARGE, "recompute=per_stage", "recompute.layers=[-1]"), "recompute.layers", "recompute.layers=[-1]"),
    ((*LARGE, "recompute=per_stage", "recompute.layers=[true]"), "recompute.layers", "recompute.layers=[True]"),
    ((*QWEN, "recompute=selective", "recompute.patterns=true"), "recompute.patterns", "recompute.patterns=True"),
    ((*QWEN, "recompute=attention", "recompute.patterns=3"), "recompute.patterns", "recompute.patterns=3"),
    (
        (*FOUR, "parallel.pipeline_interleave=2", "recompute=per_stage", "recompute.layers=[[1,1],[0,1]]"),
        "recompute.layers",
        "recompute.layers=[[1, 1], [0, 1]]",
    ),
    ((*TWO, "recompute=per_stage", "recompute.layers=[1,[2,3]]"), "recompute.layers", "recompute.layers=[1, [2, 3]]"),
    ((*TWO, "recompute=per_stage", "recompute.layers=[[1,2],[3]]"), "recompute.layers", "recompute.layers=[[1, 2], [3]]"),
]


@pytest.mark.parametrize(("overrides", "rule", "says"), LISTS, ids=[says for _, _, says in LISTS])
def test_a_list_that_can_not_be_meant_is_one_error_and_priced_nowhere(overrides: tuple[str, ...], rule: str, says: str) -> None:
    found = [finding for finding in errors(*overrides, make=quick) if finding.rule == rule]
    assert len(found) == 1 and says in found[0].what
    derived = quick(*overrides).derived
    with pytest.raises(CannotPrice, match=r"recompute\.(layers|patterns)|recomputed in each chunk"):
        price(job_of(derived.config, derived.family, derived.hardware, derived.device_num))


NATIVE = [
    "native.context=null",
    "native.runner_config=3",
    "native.callbacks.SDCMonitor=true",
    "native.callbacks=[MFLossMonitor]",
    "native.callbacks=word",
    "native.callbacks=[[1]]",
    "native.runner_config.gradient_accumulation_steps=two",
    "native.runner_config.gradient_accumulation_steps=[2]",
    "native.train_dataset.data_loader=[a]",
    "native.lr_schedule.type=[1]",
    "omit.context='*'",
]


@pytest.mark.parametrize("word", NATIVE)
def test_a_section_of_another_kind_is_an_error_with_a_mend(word: str) -> None:
    assert_mends(TINY, "device=cpu", word)
