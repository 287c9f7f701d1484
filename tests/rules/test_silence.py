"""Findings that a recipe answers with a reason, and warnings that are taken for errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mends import LARGE, TINY, findings, quick, run_of
from mindrecipe.errors import UserError, UserErrors

pytestmark = pytest.mark.usefixtures("here")
NOTHING_KEPT = (TINY, "checkpoint.save_final=false", "schedule.total_steps=2000")


def test_a_warning_is_silenced_with_its_reason() -> None:
    (finding,) = findings(*NOTHING_KEPT, "rules.silence.checkpoint.nothing_kept=throughput only")
    assert (finding.severity, finding.reason, finding.rule) == ("silenced", "throughput only", "checkpoint.nothing_kept")


def test_an_id_can_be_written_with_its_dot_and_taken_back() -> None:
    (finding,) = findings(*NOTHING_KEPT, "rules.silence={checkpoint.nothing_kept: throughput only}")
    assert finding.severity == "silenced"
    recipe = Path("recipes/quiet.yaml")
    recipe.parent.mkdir()
    recipe.write_text(
        "# @package _global_\ndefaults:\n  - override /model: llama2_tiny\ncheckpoint: {save_final: false}\nschedule: {total_steps: 2000}\n"
        "rules:\n  silence:\n    checkpoint:\n      nothing_kept: throughput only\n",
        encoding="utf-8",
    )
    (finding,) = findings("+recipe=quiet")
    assert finding.severity == "silenced" and finding.where == "recipes/quiet.yaml:4"
    (finding,) = findings("+recipe=quiet", "rules.silence.checkpoint.nothing_kept=null")
    assert finding.severity == "warning"


def test_what_is_ignored_may_be_silenced_what_stops_may_not() -> None:
    ignored = (TINY, "parallel.gradient_accumulation_steps=4")
    found = findings(*ignored, "rules.silence.mesh.accumulation_reset=also for a cluster", "rules.silence.native.trap=the same")
    assert {finding.severity for finding in found if finding.rule == "mesh.accumulation_reset"} == {"silenced"}
    stops = findings(*LARGE, "parallel.data_parallel=3", "rules.silence.mesh.product=trust me")
    assert {(finding.rule, finding.severity) for finding in stops} == {("mesh.product", "error"), ("rules.not_to_be_silenced", "error")}


def test_strict_makes_warnings_errors_but_not_what_is_silenced() -> None:
    (finding,) = findings(*NOTHING_KEPT, "rules.strict=true")
    assert finding.severity == "error"
    (finding,) = findings(*NOTHING_KEPT, "rules.strict=true", "rules.silence.checkpoint.nothing_kept=throughput only")
    assert finding.severity == "silenced"


def test_everything_is_said_at_once_worst_first() -> None:
    with pytest.raises(UserErrors) as raised:
        quick(*NOTHING_KEPT, "model.eos_token_id=5000", "optimizer.betas=[0.9]").require_sound()
    assert [fault.severity for fault in raised.value.faults] == ["error", "error", "warning"]
    assert {fault.rule for fault in raised.value.faults} == {"model.token_ids", "optimizer.arguments", "checkpoint.nothing_kept"}
    with pytest.raises(UserError, match="not below vocab_size"):
        quick(TINY, "model.eos_token_id=5000").require_sound()


def test_on_the_command_line(mindrecipe: Callable[..., Any]) -> None:
    said = mindrecipe("check", *NOTHING_KEPT, "rules.silence.checkpoint.nothing_kept=throughput only")
    assert said.code == 0 and "silenced: no checkpoint" in said.out and "but:  throughput only" in said.out and "(1 silenced)" in said.out
    assert mindrecipe("check", *NOTHING_KEPT).code == 0
    strict = mindrecipe("check", *NOTHING_KEPT, "--strict")
    assert strict.code == 2 and "error: no checkpoint will be written  [checkpoint.nothing_kept]" in strict.out
    assert json.loads(mindrecipe("check", *NOTHING_KEPT, "--strict", "--json").out)["ok"] is False


def test_train_takes_strict_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    from mindrecipe.cli.train import train

    with pytest.raises(UserError, match="no checkpoint will be written"):
        train([*NOTHING_KEPT, "--strict"])


def test_reasons_are_kept_with_the_run() -> None:
    from mindrecipe.lock import lock

    run = run_of(*NOTHING_KEPT, "rules.silence.checkpoint.nothing_kept=throughput only")
    locked = lock(run.derived, run.machine, (), run.choices, None)
    assert locked["silenced"] == {"checkpoint.nothing_kept": "throughput only"}
