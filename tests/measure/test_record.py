"""Records survive their file: every field, not-a-number included, and a torn last line is left out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from samples import step

from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import (
    RankStep,
    Usage,
    event,
    event_from_line,
    read_rank_steps,
    read_steps,
    read_usage,
    step_from_line,
    to_line,
)


def test_a_step_survives_its_line() -> None:
    record = step(3, grad_norm=None, overflow=True, mfu=0.41, memory_bytes=None)
    assert step_from_line(to_line(record)) == record
    back = step_from_line(to_line(step(3, loss=math.nan, lr=math.inf)))
    assert math.isnan(back.loss)
    assert back.lr == math.inf


def test_an_event_survives_its_line() -> None:
    told = event("error", 2, 17, type="ValueError", message='two\nlines "quoted" 数据')
    assert event_from_line(to_line(told)) == told
    with pytest.raises(ValueError, match="unknown phase"):
        event("lunch", 0, 1)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert list(read_steps(path)) == []
    path.write_text(to_line(step(1)) + to_line(step(2))[:-5])
    assert [record.step for record in read_steps(path)] == [1]


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown state"):
        Outcome(state="fine", exit_code=0)


def test_ranks_and_usage_survive_their_lines(tmp_path: Path) -> None:
    record = step(3, grad_groups={"layers.0": 0.5, "lm_head": math.inf}, update_ratio=0.01, hfu=0.5, checkpoint_time=1.5)
    assert step_from_line(to_line(record)) == record
    ranks = [RankStep(step=n, time=1.0 * n, data_time=0.1, compute_time=0.2, other_time=0.3) for n in (1, 2, 3, 2, 3)]
    (tmp_path / "ranks").write_text("".join(map(to_line, ranks)))
    assert read_rank_steps(tmp_path / "ranks") == [ranks[0], ranks[3], ranks[4]], "what a resumed run trained again counts once"
    sample = Usage(time=1.0, cpu=0.5, host_cpu=1.5, rss=7, host_memory=9, disk_read=None, disk_write=2.0, net_sent=0.0,
                   net_received=0.0, npu=0.87)  # fmt: skip
    (tmp_path / "usage").write_text(to_line(sample) + to_line(sample)[:9])
    assert read_usage(tmp_path / "usage") == [sample]
