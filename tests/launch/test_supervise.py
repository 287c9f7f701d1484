"""Every way a job can end, with real processes: who is blamed, how fast, and that nothing is left (see conftest)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import PATIENCE, Streams, steps_of, summary_of

from mindrecipe.launch import LaunchPlan, Outcome, launch, supervise

Plan = Callable[..., LaunchPlan]


def run(plan: LaunchPlan, streams: Streams) -> Outcome:
    return launch(plan, streams.view())


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_run_to_its_end(plan: Plan, run_dir: Path, streams: Streams, ranks: int) -> None:
    began = time.time()
    outcome = run(plan(ranks, FAKE_STEPS=5, FAKE_CHECKPOINT=2), streams)
    assert (outcome.state, outcome.exit_code, outcome.errors, outcome.notes) == ("completed", 0, (), ())
    summary = summary_of(run_dir)
    assert (summary["state"], summary["steps"], summary["total_steps"], summary["final_loss"]) == ("completed", 5, 5, 4.5)
    assert summary["heldout_loss"] == 3.0
    assert summary["heldout_tokens"] == sum(10 * (rank + 1) for rank in range(ranks))
    assert [Path(path).name for path in summary["checkpoints"]] == ["fake-rank_0-2.ckpt", "fake-rank_0-4.ckpt"]
    assert 0 < summary["time_to_first_step"] < time.time() - began
    assert set(summary["phases"]) == {"start", "import", "build", "compile", "train", "evaluate"}
    assert "step 5/5  loss 4.5000" in streams.out.getvalue()
    assert streams.err.getvalue() == ""


def test_each_rank_writes_a_log_of_its_own_and_gets_the_run_directory_as_it_is(plan: Plan, run_dir: Path, streams: Streams) -> None:
    run(plan(2), streams)
    for rank in range(2):
        assert str(run_dir).encode("unicode_escape").decode() in (run_dir / "logs" / f"rank_{rank}.log").read_text()


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_real_error_of_the_failing_rank_comes_first_and_fast(plan: Plan, run_dir: Path, streams: Streams, ranks: int) -> None:
    bad = ranks - 1
    began = time.monotonic()
    outcome = run(plan(ranks, FAKE_STEPS=20000, FAKE_FAULT=f"{bad}:raise@2"), streams)
    assert time.monotonic() - began < PATIENCE, "msrun was waited for"
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    error = outcome.errors[0]
    assert (error.rank, error.type, error.message) == (bad, "ValueError", f"boom-{bad}\nsecond line")
    assert error.traceback is not None
    assert "misbehave" in error.traceback
    assert outcome.stopped == tuple(range(bad))
    said = streams.err.getvalue()
    assert f"rank {bad} failed: ValueError: boom-{bad}" in said
    assert f"rank_{bad}.log" in said
    assert summary_of(run_dir)["errors"][0]["message"].startswith(f"boom-{bad}")


@pytest.fixture
def all_may_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that fail together have the time to say so, however slow they are: none is killed before."""
    monkeypatch.setattr(supervise, "SETTLE", PATIENCE)
    monkeypatch.setenv("FAKE_MSRUN_POLL", str(PATIENCE))


@pytest.mark.usefixtures("all_may_speak")
def test_a_rank_that_only_followed_is_named_as_such(plan: Plan, streams: Streams) -> None:
    outcome = run(plan(2, FAKE_STEPS=2000, FAKE_FAULT="0:follow@2,1:raise@2"), streams)
    assert [(error.rank, error.type, error.followed) for error in outcome.errors] == [
        (1, "ValueError", False),
        (0, "ConnectionError", True),
    ]
    assert "followed   rank 0: ConnectionError: peer lost" in streams.out.getvalue()


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("kill@2", "Died", "killed by SIGKILL"),
        ("segfault@2", "Died", "killed by SIGSEGV"),
        ("exit3@2", "Died", "left with exit code 3"),
        ("quit@2", "Died", "before its work was done"),
        ("mute@2", "OSError", "told-to-the-log-only"),
        ("import@0", "ModuleNotFoundError", "No module named 'no_such_module'"),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_rank_that_ends_without_a_word_is_found_out(
    plan: Plan, streams: Streams, ranks: int, fault: str, kind: str, message: str
) -> None:
    began = time.monotonic()
    outcome = run(plan(ranks, FAKE_STEPS=20000, FAKE_FAULT=f"{ranks - 1}:{fault}"), streams)
    assert time.monotonic() - began < PATIENCE, "msrun was waited for"
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    error = outcome.errors[0]
    assert (error.rank, error.type) == (ranks - 1, kind)
    assert message in error.message
    assert Path(error.log).is_file()


@pytest.mark.usefixtures("all_may_speak")
def test_a_dead_rank_is_blamed_although_another_one_complains_of_it(plan: Plan, streams: Streams) -> None:
    outcome = run(plan(2, FAKE_STEPS=2000, FAKE_FAULT="1:kill@2,0:follow@3"), streams)
    assert [(error.rank, error.type) for error in outcome.errors] == [(1, "Died"), (0, "ConnectionError")]


def test_a_run_that_diverged(plan: Plan, run_dir: Path, streams: Streams) -> None:
    outcome = run(plan(2, FAKE_STEPS=50, FAKE_FAULT="0:nan@3,1:nan@3"), streams)
    assert (outcome.state, outcome.exit_code, outcome.errors[0].type) == ("diverged", 1, "Diverged")
    assert summary_of(run_dir)["first_bad_step"] == 3
    assert "first bad  step 3" in streams.out.getvalue()


def test_ranks_that_did_nothing_did_not_succeed(plan: Plan, run_dir: Path, streams: Streams) -> None:
    outcome = run(plan(2, FAKE_STEPS=0), streams)
    assert (outcome.state, outcome.exit_code, outcome.errors[0].type) == ("failed", 1, "NoSteps")
    assert summary_of(run_dir)["state"] == "failed"


def test_a_crash_after_the_work_is_done_is_a_note(plan: Plan, run_dir: Path, streams: Streams) -> None:
    outcome = run(plan(1, FAKE_AFTER_DONE="segfault"), streams)
    assert (outcome.state, outcome.exit_code) == ("completed", 0)
    assert outcome.notes == ("the rank: killed by SIGSEGV after the work was done",)
    assert summary_of(run_dir)["notes"] == list(outcome.notes)


def test_launching_a_directory_again_loses_nothing_of_the_first_time(plan: Plan, run_dir: Path, streams: Streams) -> None:
    run(plan(1, FAKE_STEPS=2000, FAKE_FAULT="0:raise@4"), streams)
    (run_dir / "lock.json").write_text('{"derived": {"resume": {"step": 2}}}')
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write('{"torn": ')
    outcome = run(plan(1, FAKE_STEPS=5, FAKE_RESUME=2), streams)
    assert (outcome.state, outcome.errors) == ("completed", ())
    summary = summary_of(run_dir)
    assert (summary["steps"], summary["first_loss"], summary["final_loss"]) == (5, 4.9, 4.5)
    assert steps_of(run_dir) == 5
    assert "boom-0" in (run_dir / "logs" / "rank_0.1.log").read_text()
    assert (run_dir / "metrics.1.jsonl").read_text().count("\n") == 3
    assert (run_dir / "summary.1.json").is_file()


def test_a_broken_view_takes_the_ranks_down_with_it(plan: Plan, run_dir: Path) -> None:
    view = Streams().view()

    def step(record: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    view.step = step  # type: ignore[method-assign, assignment]
    with pytest.raises(BrokenPipeError):
        launch(plan(2, FAKE_STEPS=2000), view)
    assert summary_of(run_dir)["state"] == "failed"
    (line,) = (run_dir / "attempts.jsonl").read_text().splitlines()
    attempt = json.loads(line)
    assert attempt["state"] == "failed" and attempt["ended"] is not None and attempt["error"]["type"] == "BrokenPipeError"
