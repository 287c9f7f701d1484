"""The live view at every width from 60 columns: nothing wraps, nothing flickers, nothing is lost without colour or Unicode."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from samples import step

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, StepRecord
from mindrecipe.measure.summary import HeldOut, Session, Summary, summarise
from mindrecipe.measure.view import Header, LiveView
from mindrecipe.measure.view.frame import frame_lines
from mindrecipe.measure.view.progress import Progress

WIDTHS = [60, 61, 72, 80, 100, 120, 200]


def event(phase: str, rank: int = 0, time: float = 0.0, **detail: object) -> Event:
    return Event(phase=phase, rank=rank, pid=1, time=time, detail=dict(detail))


def console(width: int, encoding: str = "utf-8", **options: object) -> Console:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    environ = {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "24", **dict(options)}
    return Console(file=stream, width=width, height=24, force_terminal=True, _environ=environ)  # type: ignore[arg-type]


def written(target: Console) -> str:
    assert isinstance(target.file, io.TextIOWrapper)
    target.file.flush()
    raw = target.file.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(target.file.encoding)


def heavy() -> StepRecord:
    """All fields at their longest."""
    return step(
        99, loss=10.123456, lr=2.9999e-4, grad_norm=12345.678, loss_scale=65536.0, overflow=True, tokens_per_s=1.23456e6, step_time=123.4,
        tflops_per_device=312.3, mfu=0.4231, memory_bytes=60 * 2**30,
    )  # fmt: skip


def running(header: Header, width: int, encoding: str = "utf-8", **options: object) -> tuple[LiveView, Console]:
    target = console(width, encoding, **options)
    view = LiveView(target, clock=lambda: 1000.0)
    view.begin(replace(header, run_dir=Path("/a/" + "long_folder/" * 20)))
    for number in range(1, 99):
        view.step(step(number, loss=10.0 - number / 20))
    view.step(heavy())
    view.event(event("checkpoint", step=90))
    return view, target


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_frame_fits_and_shows_everything(header: Header, width: int, encoding: str) -> None:
    view, _ = running(header, width, encoding)
    target = console(width, encoding)
    target.print(view)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written(target)).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= min(width, 120)
    assert len({len(line) for line in lines}) == 1, "the frame has a straight edge"
    text = "\n".join(lines)
    for expected in (
        "99/100", "99%", "10.1235", "from 9.9500", "tokens/s", "MFU 42.3%", "lr 3.00e-04", "grad norm 1.23e+04", "loss scale 65536",
        "1 overflow", "60 GiB", "long_folder", "llama2_tiny", "2 ranks", "checkpoint of step 90",
    ):  # fmt: skip
        assert expected in text
    assert text.isascii() is (encoding == "ascii")


@pytest.mark.parametrize("width", range(24, 200, 7))
def test_no_line_is_ever_wider_than_asked(header: Header, width: int) -> None:
    progress = Progress(100, clock=lambda: 1000.0)
    error = RankError(rank=1, type="ValueError", message="x" * 500, log="l", time=0.0)
    for record in (None, heavy(), step(1, loss=math.nan)):
        if record is not None:
            progress.on_step(record)
        for ascii_only in (False, True):
            lines = frame_lines(header, progress, width, ascii_only=ascii_only, failure=error)
            assert max(line.cell_len for line in lines) <= width
            assert not [line for line in lines if "\n" in line.plain]


def test_until_the_first_step_the_phase_is_shown_with_its_time(header: Header) -> None:
    now = [1000.0]
    progress = Progress(100, ranks=2, clock=lambda: now[0])
    now[0] = 1063.0
    for rank in range(2):
        progress.on_event(event("compile", rank, time=1060.0))
    first = frame_lines(header, progress, 76)[0].plain
    assert "compiling the graph   0:03 (1:03 in all)" in first


def test_what_follows_training_is_shown_below_the_figures(header: Header) -> None:
    progress = Progress(1, clock=lambda: 5.0)
    progress.on_step(step(1))
    progress.on_event(event("evaluate", time=2.0))
    assert any("evaluating held-out text   0:03" in line.plain for line in frame_lines(header, progress, 76))


def test_progress_can_be_read_without_colour(header: Header) -> None:
    progress = Progress(100, clock=lambda: 5.0)
    progress.on_step(step(50))
    bar = frame_lines(header, progress, 76)[0].plain
    assert bar.count("━") == pytest.approx(bar.count("─"), abs=1)
    assert bar.count("━") > 10


def test_no_color_is_honoured(header: Header) -> None:
    view, target = running(header, 80, NO_COLOR="1")
    view.tick()
    view.close()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9][0-9;]*m", written(target))


def test_frames_are_drawn_in_place_from_this_thread_and_not_too_often(header: Header) -> None:
    now = [0.0]
    target = console(80)
    view = LiveView(target, clock=lambda: now[0])
    view.begin(header)
    before = written(target)
    for _ in range(100):
        view.tick()
    assert written(target) == before, "a frame a fifth of a second, not a tick"
    now[0] = 0.5
    view.step(step(1))
    view.tick()
    frame = written(target)[len(before) :]
    assert "\x1b[1A" in frame, "the cursor goes up over the last frame"
    assert "\x1b[2J" not in frame, "the screen is not cleared"
    view.close()
    view.close()
    assert re.findall(r"\x1b\[\?25[lh]", written(target))[-1] == "\x1b[?25h", "the cursor is shown again"


def finished(state: str, **options: object) -> tuple[Outcome, Summary]:
    error = RankError(rank=1, type="RuntimeError", message="word " * 60, log="/" + "folder/" * 20 + "rank_1.log", time=0.0)
    outcome = Outcome(state=state, exit_code=1, errors=(error,) if state in ("failed", "diverged") else (), stopped=(0,))
    parts = [HeldOut(loss_sum=40.0, tokens=10)]
    records = [step(number, loss=6 - number / 10) for number in range(1, 11)]
    clock = Session(started=0.0, first_step=3.2, ended=9.0)
    return outcome, summarise(outcome, records, session=clock, heldout=parts, unigram_entropy=5.5, total_steps=100, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("state", ["completed", "interrupted", "failed", "diverged"])
def test_the_summary_replaces_the_frame_and_fits(header: Header, width: int, state: str) -> None:
    view, target = running(header, width)
    before = written(target)
    outcome, summary = finished(state, checkpoints=["/" + "folder/" * 20 + "last.ckpt"])
    view.end(outcome, summary)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written(target)[len(before) :])
    assert max(len(line) for line in text.splitlines() if line.startswith(("│", "╭", "╰"))) <= width
    for expected in (
        state,
        "10 of 100",
        "5.9000 -> 5.0000",
        "perplexity 54.6",
        "unigram entropy of 5.5000",
        "10.0k tokens/s",
        "p50 50 ms",
        "3.20 s",
        "checkpoint  /" + "folder/" * 20 + "last.ckpt",
    ):
        assert expected in text, expected
    assert ("checkpoint.resume" in text) == (state in ("interrupted", "failed"))
    assert ("log         /" + "folder/" * 20 + "rank_1.log" in text) == (state in ("failed", "diverged"))


def test_resuming_is_proposed_only_where_there_is_a_checkpoint(header: Header) -> None:
    view, target = running(header, 100)
    view.end(*finished("interrupted"))
    assert "no checkpoint was saved yet" in written(target)
    assert "checkpoint.resume" not in written(target)


def test_notes_stand_above_the_frame_and_are_not_wrapped(header: Header) -> None:
    view, target = running(header, 60)
    view.note("a note " * 20)
    view.say("msrun " + "--word " * 30)
    view.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written(target))
    assert "a note " * 20 in plain
    assert "--word " * 30 in plain
