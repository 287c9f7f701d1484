"""Run: the single object, immutable, from overrides to native YAML."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

import mindrecipe
from mends import LARGE, MACHINE, TINY, quick, run_of
from mindrecipe.derive.machine import this_machine
from mindrecipe.errors import EXIT_USAGE, UserError, UserErrors
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")


def test_the_names_that_are_promised() -> None:
    assert mindrecipe.Run is Run and mindrecipe.UserError is UserError
    for name in ("from_overrides", "check", "lower", "freeze", "launch"):
        assert callable(getattr(Run, name))
        assert inspect.getdoc(getattr(Run, name))
    with pytest.raises(AttributeError):
        mindrecipe.nope  # noqa: B018


def test_a_run_is_a_value() -> None:
    run = run_of(TINY)
    assert run == run_of(TINY)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.config = None  # type: ignore[misc, assignment]
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.config.model.num_layers = 3  # type: ignore[misc]


def test_the_machine_is_this_one_unless_it_is_given() -> None:
    assert Run.from_overrides([TINY]).machine == this_machine()
    assert run_of(TINY).machine == MACHINE


def test_require_sound() -> None:
    assert [finding.rule for finding in quick(TINY, "checkpoint.save_steps=100000").require_sound()] == ["checkpoint.interval"]
    with pytest.raises(UserError) as one:
        quick(TINY, "schedule.lr_end=1").require_sound()
    assert not isinstance(one.value, UserErrors) and one.value.exit_code == EXIT_USAGE
    assert "(the learning rate would climb to its end)" in one.value.what
    with pytest.raises(UserErrors) as several:
        quick(TINY, "schedule.lr_end=1", "launch.node_rank=3").require_sound()
    assert len(several.value.faults) == 2
    assert str(several.value).count("  mend: ") == 2


def test_places_of_an_export() -> None:
    assert quick(*LARGE).export_place().train_files == ("./dataset/train.mindrecord",)
    ready = quick(*LARGE, "dataset=mindrecord", "dataset.files=[a.mindrecord,b.mindrecord]", "checkpoint.load=w")
    assert ready.export_place().train_files == ("a.mindrecord", "b.mindrecord")
    assert ready.lower()["load_checkpoint"] == "w"


def test_user_errors_are_told_in_three_lines() -> None:
    assert str(UserError("a", where="b", mend="c")) == "a\n  at:   b\n  mend: c"
    assert str(UserError("a")) == "a"
