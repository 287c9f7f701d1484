"""Jobs that are started again: after a death, a hang, a bad loss; and those that are not."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import Launcher, Streams, goes_on, summary_of, wait_for

from mindrecipe.launch import LaunchPlan, Outcome, RestartPolicy, launch, stall
from mindrecipe.launch.restart import LONGEST_BACKOFF, Attempt, Records, decide
from mindrecipe.launch.stall import StallClock
from mindrecipe.measure.record import Event, read_steps

Plan = Callable[..., LaunchPlan]
TWICE = RestartPolicy(max_restarts=2, backoff=0.1)


def run(plan: LaunchPlan, streams: Streams) -> Outcome:
    return launch(plan, streams.view(), goes_on(plan))


def attempts(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "attempts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", ["kill", "raise"])
def test_a_failed_job_goes_on_from_its_last_checkpoint(plan: Plan, run_dir: Path, streams: Streams, ranks: int, kind: str) -> None:
    asked = plan(ranks, FAKE_STEPS=8, FAKE_CHECKPOINT=2, FAKE_FAULT=f"{ranks - 1}:{kind}@6", FAKE_ONCE=1, FAKE_ABREAST=1, restarts=TWICE)
    outcome = run(asked, streams)
    assert (outcome.state, outcome.exit_code, outcome.notes) == ("completed", 0, ("attempts: 2",))
    assert [record.step for record in read_steps(run_dir / "metrics.jsonl")] == list(range(1, 9)), "one line a step"
    first, second = attempts(run_dir)
    assert (first["state"], first["from_step"], second["state"], second["from_step"], second["last_step"]) == (
        "failed",
        0,
        "completed",
        4,
        8,
    )
    assert first["last_step"] >= 5 and first["decision"] == "restart 1 of 2 in 0.1 s"
    assert "attempt 2: resuming from step 4" in streams.out.getvalue()


def test_a_job_that_hangs_is_started_again(plan: Plan, run_dir: Path, streams: Streams) -> None:
    often = RestartPolicy(max_restarts=9, backoff=0)  # a busy machine may hold a step up as long
    faults = {"FAKE_FAULT": "1:hang@6,0:hang@6", "FAKE_ONCE": 1, "FAKE_ABREAST": 1}
    asked = plan(2, FAKE_STEPS=8, FAKE_CHECKPOINT=2, stall_timeout=10, stall_min=3, restarts=often, **faults)
    assert run(asked, streams).state == "completed"
    error = attempts(run_dir)[0]["error"]
    assert error["type"] == "Stalled" and "no step for " in error["message"]


def test_compiling_and_saving_are_no_hang(plan: Plan, streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that stands still but for hours of compiling, and many times the limit of saving."""
    now, view = [0.0], streams.view()
    show = view.event

    def event(told: Event) -> None:
        now[0] += {"compile": 9999, "save": 50}.get(told.phase, 0)
        show(told)

    monkeypatch.setattr(view, "event", event)
    monkeypatch.setattr(stall, "StallClock", partial(StallClock, clock=lambda: now[0]))
    slow = plan(1, FAKE_STEPS=6, FAKE_FIRST_STEP=0.5, FAKE_SLOW_SAVE=0.5, FAKE_CHECKPOINT=5, stall_timeout=2, stall_min=2)
    assert launch(slow, view).state == "completed" and now[0] == 9999 + 50


def test_a_job_that_hangs_again_before_its_third_step_is_started_again(plan: Plan, run_dir: Path, streams: Streams) -> None:
    """The first attempt tells how long a step takes."""
    often = RestartPolicy(max_restarts=9, backoff=0)
    faults = {"FAKE_FAULT": "0:kill@4,0:hang@5", "FAKE_ONCE": 1}
    asked = plan(1, FAKE_STEPS=8, FAKE_CHECKPOINT=2, stall_timeout=10, stall_min=2, restarts=often, **faults)
    assert run(asked, streams).state == "completed"
    stalled = [attempt for attempt in attempts(run_dir) if (attempt["error"] or {}).get("type") == "Stalled"]
    assert (2, 4) in [(attempt["from_step"], attempt["last_step"]) for attempt in stalled], "others may be of a busy machine"


def test_restarts_are_used_up(plan: Plan, run_dir: Path, streams: Streams) -> None:
    outcome = run(plan(1, FAKE_STEPS=8, FAKE_CHECKPOINT=2, FAKE_FAULT="0:kill@6", restarts=TWICE), streams)
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert outcome.notes == ("not started again: launch.max_restarts=2 is used up", "attempts: 3")
    assert len(attempts(run_dir)) == 3


@pytest.mark.parametrize(
    ("at", "began"),
    [
        (4, [0, 2]),
        (5, [0, 4, 2]),  # step 5's loss is the first of the weights of checkpoint 4: the fault may lie in it
    ],
)
def test_the_same_bad_loss_at_the_same_step_is_not_tried_for_ever(
    plan: Plan, run_dir: Path, streams: Streams, at: int, began: list[int]
) -> None:
    asked = plan(1, FAKE_STEPS=8, FAKE_CHECKPOINT=2, FAKE_FAULT=f"0:nan@{at}", restarts=RestartPolicy(max_restarts=9, backoff=0.1))
    outcome = run(asked, streams)
    assert (outcome.state, outcome.exit_code) == ("diverged", 1)
    assert f"the same end at the same step {at}" in outcome.notes[0]
    assert [each["from_step"] for each in attempts(run_dir)] == began


def test_no_good_checkpoint_no_restart(plan: Plan, streams: Streams) -> None:
    from mindrecipe.errors import UserError

    def again(before: int | None) -> tuple[str, ...]:
        raise UserError("all checkpoints are broken")

    outcome = launch(plan(1, FAKE_STEPS=8, FAKE_FAULT="0:kill@6", restarts=TWICE), streams.view(), again)
    assert outcome.exit_code == 1
    assert "not started again: all checkpoints are broken" in streams.out.getvalue()


def test_a_signal_ends_the_wait_for_a_restart(run_dir: Path) -> None:
    launcher = Launcher(run_dir, 1, FAKE_STEPS=8, FAKE_FAULT="0:kill@3", max_restarts=3, backoff=60)
    wait_for(lambda: "restart 1 of 3" in launcher.said)
    launcher.signal(signal.SIGTERM)
    assert launcher.ends() == 143


@pytest.mark.parametrize("ranks", [1, 2])
def test_sigterm_lets_the_ranks_save_and_exits_143(run_dir: Path, ranks: int) -> None:
    launcher = Launcher(run_dir, ranks, FAKE_STEPS=5000, FAKE_TERM="save", FAKE_ABREAST=1).trains()
    launcher.signal(signal.SIGTERM)
    assert launcher.ends() == 143
    assert summary_of(run_dir)["state"] == "interrupted"
    assert len(list(run_dir.glob("checkpoint/rank_*/*.ckpt"))) == ranks
    assert "the ranks save at their next step" in launcher.said and "nothing is saved" not in launcher.said
    assert ranks > 1 or "resume     train" in launcher.said, "fake ranks do not agree on a step"


def attempt(number: int = 1, state: str = "failed", at: tuple[int, int] = (0, 5), **error: Any) -> Attempt:
    told = {"rank": 0, "type": "Died", "message": "m", "step": None} | error
    return Attempt(
        number=number,
        started=number * 100.0,
        ended=number * 100.0 + 50,
        state=state,
        exit_code=1,
        from_step=at[0],
        last_step=at[1],
        error=told,
    )


def test_each_attempt_has_one_line_and_those_of_earlier_launches_stay(tmp_path: Path) -> None:
    for _ in range(2):
        records = Records(tmp_path / "attempts.jsonl")
        for number in (1, 2):
            records.write(attempt(number, state="running"))
            records.write(attempt(number))
    records.write(attempt(3, state="running"))
    assert [(each["number"], each["state"]) for each in attempts(tmp_path)] == [
        *[(1, "failed"), (2, "failed")] * 2,
        (3, "running"),
    ]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["attempts.jsonl"]


def test_the_back_off_doubles_until_a_step_is_made() -> None:
    policy = RestartPolicy(max_restarts=20, backoff=5)
    idle = [attempt(number, at=(5, 5), message=f"m{number}") for number in range(1, 12)]
    waits = [decide(policy, [attempt(), *idle[:count]], 0.0).wait for count in range(11)]
    assert waits[:4] == [5, 10, 20, 40] and waits[-1] == LONGEST_BACKOFF


def test_restarts_longer_ago_than_the_window_do_not_count() -> None:
    history = [attempt(number, message=f"m{number}") for number in (1, 2, 3)]
    assert decide(RestartPolicy(max_restarts=2), history, 350.0).wait is None
    assert decide(RestartPolicy(max_restarts=2, window=100), history, 350.0).wait is not None


@pytest.mark.parametrize("kind", ["UserError", "DiskFull", "NoSteps"])
def test_what_a_restart_can_not_cure(kind: str) -> None:
    decision = decide(RestartPolicy(max_restarts=5), [attempt(type=kind)])
    assert decision.wait is None and decision.why.startswith("not started again: ")


def test_an_error_before_any_step_twice_is_enough() -> None:
    idle = [attempt(number, at=(0, 0)) for number in (1, 2)]
    assert decide(RestartPolicy(max_restarts=5), idle[:1]).wait is not None
    assert decide(RestartPolicy(max_restarts=5), idle).wait is None


def test_a_bad_loss_goes_back_before_its_step() -> None:
    assert decide(RestartPolicy(max_restarts=1), [attempt(state="diverged", type="Diverged", step=7)]).before == 7


BAD = {"state": "diverged", "type": "Diverged", "step": 51}


def test_a_checkpoint_that_may_hold_the_fault_is_gone_back_behind_once() -> None:
    """Update 50 was faulty and saved; its loss is that of step 51."""
    policy = RestartPolicy(max_restarts=9)
    history = [attempt(1, at=(0, 51), **BAD)]
    assert decide(policy, history).before == 51
    history.append(attempt(2, at=(50, 51), **BAD))
    second = decide(policy, history)
    assert second.before == 50 and "from before step 50: its checkpoint may hold what step 51 shows" in second.why
    assert decide(policy, [*history, attempt(3, at=(40, 60), type="Died")]).wait is not None
    third = decide(policy, [*history, attempt(3, at=(40, 51), **BAD)])
    assert third.wait is None and "it is in the data or the settings" in third.why


@pytest.mark.parametrize(
    ("began", "error"),
    [
        (49, BAD),  # step 50's loss has judged them
        (0, {**BAD, "step": 1}),
        (50, {"state": "failed", "type": "ValueError", "step": 51}),  # no verdict on weights
    ],
)
def test_weights_that_were_judged_are_not_gone_back_behind(began: int, error: dict[str, Any]) -> None:
    step = error["step"]
    history = [attempt(1, at=(0, step), **error), attempt(2, at=(began, step), **error)]
    assert decide(RestartPolicy(max_restarts=9), history).wait is None


def test_the_way_back_is_one_of_the_restarts() -> None:
    history = [attempt(1, at=(0, 51), **BAD), attempt(2, at=(50, 51), **BAD)]
    assert "max_restarts=1 is used up" in decide(RestartPolicy(max_restarts=1), history).why


@pytest.mark.parametrize("state", ["completed", "interrupted"])
def test_an_end_that_was_wanted_is_one(state: str) -> None:
    assert decide(RestartPolicy(max_restarts=5), [attempt(state=state)]) == decide(RestartPolicy(), [attempt(state=state)])
