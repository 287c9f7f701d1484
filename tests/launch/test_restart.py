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


def test_the_same_bad_loss_at_the_same_step_is_not_tried_a_third_time(plan: Plan, run_dir: Path, streams: Streams) -> None:
    asked = plan(1, FAKE_STEPS=8, FAKE_CHECKPOINT=2, FAKE_FAULT="0:nan@3", restarts=RestartPolicy(max_restarts=9, backoff=0.1))
    outcome = run(asked, streams)
    assert (outcome.state, outcome.exit_code) == ("diverged", 1)
    assert "the same end at the same step 3" in outcome.notes[0]
    assert len(attempts(run_dir)) == 2


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


@pytest.mark.parametrize("state", ["completed", "interrupted"])
def test_an_end_that_was_wanted_is_one(state: str) -> None:
    assert decide(RestartPolicy(max_restarts=5), [attempt(state=state)]) == decide(RestartPolicy(), [attempt(state=state)])
