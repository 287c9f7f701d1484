"""Reading along with the ranks: what arrives, in which order, and what other hosts report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import wait_for

from mindrecipe.launch import LaunchPlan, peers
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.plan import LOOK_ELSEWHERE_EVERY
from mindrecipe.launch.session import open_session
from mindrecipe.launch.watch import News, Watch
from mindrecipe.measure.history import set_aside
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, StepRecord, to_line


def step(number: int) -> StepRecord:
    return StepRecord(
        step=number, epoch=1, loss=1.0, lr=1.0, grad_norm=None, loss_scale=None, overflow=False, step_time=1.0, data_time=0.0,
        compute_time=1.0, other_time=0.0, tokens_per_s=1.0, tflops_per_device=0.0, mfu=None, memory_bytes=None,
    )  # fmt: skip


def event(phase: str, time: float = 0.0, rank: int = 0, **detail: object) -> Event:
    return Event(phase=phase, rank=rank, pid=1, time=time, detail=dict(detail))


def write(path: Path, *records: StepRecord | Event) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(map(to_line, records))


def test_steps_and_events_come_in_the_order_they_happened() -> None:
    checkpoint, done = event("checkpoint", 5.0, step=2), event("done", 9.0)
    news = News(steps=[step(1), step(2), step(3)], events=[done, checkpoint, event("compile", 1.0)])
    said = [item.step if isinstance(item, StepRecord) else item.phase for item in news.in_order()]
    assert said == ["compile", 1, 2, "checkpoint", 3, "done"]


def test_only_what_is_new_is_read_and_what_is_no_record_is_told(plan: Callable[..., LaunchPlan]) -> None:
    asked = plan(2)
    write(asked.files.metrics, step(1))
    write(asked.files.events(1), event("start", rank=1))
    watch = Watch(asked)
    write(asked.files.metrics, step(2))
    write(asked.files.events(1), event("train", rank=1))
    with asked.files.metrics.open("a") as file:
        file.write('{"step": 3}\nnonsense\n{"half')
    news = watch.look()
    assert [record.step for record in news.steps] == [2]
    assert [(item.rank, item.phase) for item in news.events] == [(1, "train")]
    assert news.unreadable == ['metrics.jsonl: {"step": 3}', "metrics.jsonl: nonsense"]
    assert watch.look() == News()


def test_the_first_host_looks_at_the_others_now_and_then(plan: Callable[..., LaunchPlan]) -> None:
    first, second = plan(1, nodes=2, node_rank=0), plan(1, nodes=2, node_rank=1)
    assert (list(first.local_ranks), list(second.local_ranks)) == ([0], [1])
    watches = [Watch(first), Watch(second)]
    write(first.files.events(0), event("error", rank=0))
    write(first.files.events(1), event("error", rank=1))
    seen = [[item.rank for _ in range(LOOK_ELSEWHERE_EVERY) for item in watch.look().events] for watch in watches]
    assert seen == [[0, 1], [1]]
    write(first.files.events(1), event("done", rank=1))
    assert [item.phase for item in watches[0].look(everywhere=True).events] == ["done"]


@pytest.fixture
def every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "LOOK_ELSEWHERE_EVERY", 1)


@pytest.mark.usefixtures("every_look")
@pytest.mark.parametrize("node", [0, 1])
def test_a_host_learns_of_anothers_end(plan: Callable[..., LaunchPlan], node: int) -> None:
    with Peers(plan(1, nodes=2, node_rank=node)) as asked, Peers(plan(1, nodes=2, node_rank=1 - node)) as other:
        assert asked.stopped() is None
        cause = RankError(rank=3, type="ValueError", message="boom", log="/l", time=1.0)
        for outcome in (Outcome(state="completed", exit_code=0), Outcome(state="interrupted", exit_code=130)):
            other.ended(outcome)
            told = asked.stopped()
            assert (told is None) == (outcome.state == "completed")
        assert told is not None and (told.rank, told.type, told.message) == (None, "Stopped", f"host {1 - node} was interrupted")
        other.ended(Outcome(state="failed", exit_code=1, errors=(cause,)))
        assert asked.stopped() == cause
        asked.next(("onwards",))
        assert asked.stopped() is None, "the end of one attempt is none of the next"


def test_what_an_earlier_launch_left_says_nothing(plan: Callable[..., LaunchPlan], run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other host comes before the first, which sets its file aside with the rest: it comes again."""
    monkeypatch.setattr(peers, "BEAT", 0.05)
    with Peers(plan(1, nodes=2, node_rank=0)) as first:
        first.over("")
    with Peers(plan(1, nodes=2, node_rank=1)) as second, Peers(plan(1, nodes=2, node_rank=0)) as first:
        assert second.told() is None and (run_dir / "hosts.1/next_1.json").is_file()
        wait_for(lambda: 1 in first.here())
        sign = first.sign_of_life(1)
        wait_for(lambda: first.sign_of_life(1) > sign)


def test_a_session_puts_what_is_there_in_order(plan: Callable[..., LaunchPlan], run_dir: Path) -> None:
    asked = plan(2)
    write(asked.files.metrics, step(1), step(2), step(3))
    write(asked.files.events(0), event("start"))
    with asked.files.events(0).open("a") as file:
        file.write('{"torn')
    for name in ("logs/rank_0.log", "logs/rank_0.1.log", "logs/msrun.log", "logs/scheduler.log", "summary.json", "heldout/rank_1.json"):
        (run_dir / name).parent.mkdir(exist_ok=True)
        (run_dir / name).write_text("old")
    (run_dir / "lock.json").write_text('{"derived": {"resume": {"step": 2}}}')
    assert [record.step for record in open_session(asked)] == [1, 2]
    assert asked.files.metrics.read_text() == to_line(step(1)) + to_line(step(2))
    assert asked.files.events(0).read_text() == to_line(event("start"))
    assert {path.name for path in asked.files.logs.iterdir()} == {
        "rank_0.events.jsonl",
        "rank_0.1.log",
        "rank_0.2.log",
        "msrun.1.log",
        "scheduler.1.log",
    }
    assert not (run_dir / "heldout" / "rank_1.json").exists()
    assert [record.step for record in open_session(asked)] == [1, 2], "nothing changes the second time"
    assert not (run_dir / "metrics.2.jsonl").exists()


def test_another_host_leaves_the_first_ones_files_alone(plan: Callable[..., LaunchPlan], run_dir: Path) -> None:
    asked = plan(1, nodes=2, node_rank=1)
    write(asked.files.metrics, step(1))
    (run_dir / "summary.json").write_text("{}")
    assert open_session(asked) == []
    assert (run_dir / "summary.json").exists()
    assert asked.files.metrics.read_text() == to_line(step(1))


def test_nothing_to_set_aside(tmp_path: Path) -> None:
    assert set_aside(tmp_path / "a.log") is None
