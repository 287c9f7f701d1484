"""Plain lines: no control codes, no wrapping, one fact a line, whatever the stream can encode."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from samples import step

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event
from mindrecipe.measure.summary import Session, summarise
from mindrecipe.measure.view import Header, LiveView, PlainView, make_view


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def event(phase: str, rank: int = 0, **detail: object) -> Event:
    return Event(phase=phase, rank=rank, pid=1, time=0.0, detail=dict(detail))


def show(
    header: Header, steps: Iterable[int], *, log_steps: int = 1, quiet: bool = False, outcome: Outcome | None = None
) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    view = PlainView(out, err, log_steps=log_steps, quiet=quiet)
    outcome = outcome or Outcome(state="completed", exit_code=0)
    view.begin(header)
    for rank in range(2):
        view.event(event("import", rank))
    records = [step(number) for number in steps]
    for record in records:
        view.step(record)
        view.tick()
    if outcome.errors:
        view.failure(outcome.errors[0])
    view.end(outcome, summarise(outcome, records, session=Session(started=0.0, ended=9.0), total_steps=header.total_steps))
    view.close()
    return out.getvalue(), err.getvalue()


def test_a_step_is_one_line_with_all_that_matters(header: Header) -> None:
    out, err = show(header, [1, 2])
    assert "step 2/100  loss 5.0000  lr 1.000e-03  grad_norm 1.25  tokens/s 10000  s/step 0.05  eta 0:05" in out.splitlines()
    assert err == ""
    assert out.splitlines()[0] == "llama2_tiny: 2 ranks, CPU"
    assert out.count("importing mindspore and mindformers") == 1


def test_no_control_codes_and_no_wrapping(header: Header) -> None:
    long = replace(header, run_dir=Path("/" + "very_long_folder/" * 20))
    out, _ = show(long, range(1, 50))
    assert not [character for character in out if ord(character) < 32 and character != "\n"]
    assert "\x1b" not in out
    assert f"run        {long.run_dir}" in out.splitlines()


def test_log_steps_thins_the_lines_but_keeps_the_first_and_the_last(header: Header) -> None:
    out, _ = show(header, range(1, 48), log_steps=10)
    assert [line.split()[1] for line in out.splitlines() if line.startswith("step ")][:6] == [f"{n}/100" for n in (1, 10, 20, 30, 40, 47)]


def test_the_line_of_a_scaled_overflowing_step(header: Header) -> None:
    out, err = io.StringIO(), io.StringIO()
    view = PlainView(out, err)
    view.begin(replace(header, total_steps=None))
    view.step(step(7, loss_scale=65536.0, overflow=True, mfu=0.4123, grad_norm=None))
    expected = "step 7  loss 5.0000  lr 1.000e-03  loss_scale 65536  overflow  tokens/s 10000  s/step 0.05  mfu 41.2%"
    assert out.getvalue().splitlines()[-1] == expected


def test_a_failure_is_told_on_stderr_at_once_and_again_in_the_summary(header: Header) -> None:
    error = RankError(
        rank=1, type="ValueError", message="boom\n" + "\n".join(f"line {n}" for n in range(50)), log="/r/logs/rank_1.log", time=1.0
    )
    out, err = show(header, [1], outcome=Outcome(state="failed", exit_code=1, errors=(error,), stopped=(0,)))
    assert err.splitlines()[0] == "rank 1 failed: ValueError: boom"
    assert err.splitlines()[-1] == "  log: /r/logs/rank_1.log"
    assert len(err.splitlines()) < 16
    assert "cause      rank 1: ValueError: boom" in out
    assert "stopped    rank 0" in out


def test_an_error_without_words_is_told_too(header: Header) -> None:
    error = RankError(rank=0, type="AssertionError", message="", log="l", time=1.0)
    _, err = show(header, [], outcome=Outcome(state="failed", exit_code=1, errors=(error,)))
    assert err.startswith("rank 0 failed: AssertionError")


def test_quiet_is_the_summary_and_failures_only(header: Header) -> None:
    out, err = show(header, [1, 2, 3], quiet=True)
    assert out.startswith("state      completed\n")
    assert "step 2/100" not in out
    assert err == ""


def test_a_stream_that_cannot_encode_a_path_gets_it_escaped(header: Header) -> None:
    raw = io.BytesIO()
    view = PlainView(io.TextIOWrapper(raw, encoding="ascii"), io.StringIO())
    view.begin(replace(header, title="模型"))
    assert raw.getvalue().startswith(b"\\u6a21\\u578b: 2 ranks")


def test_preparation_is_one_line_a_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    out = io.StringIO()
    view = PlainView(out, io.StringIO())
    for what in ("tokenizing, 0.1 M tokens 1 %", "tokenizing, 0.2 M tokens 2 %", "closing the data set's files"):
        view.prepare(what)
    now[0] = 11.0
    view.prepare("closing the data set's files")
    assert out.getvalue().splitlines() == ["tokenizing, 0.1 M tokens 1 %", *["closing the data set's files"] * 2]


def test_checkpoints_are_told_by_the_first_rank(header: Header) -> None:
    out = io.StringIO()
    view = PlainView(out, io.StringIO())
    view.begin(header)
    for rank in (0, 1):
        view.event(event("checkpoint", rank, step=8, path=f"/r/checkpoint/rank_{rank}/a.ckpt"))
    assert out.getvalue().splitlines()[2:] == ["checkpoint of step 8: /r/checkpoint/rank_0/a.ckpt"]


@pytest.mark.parametrize(
    ("console", "stream", "environ", "kind"),
    [
        ("auto", Terminal(), {"TERM": "xterm"}, LiveView),
        ("auto", Terminal(), {"TERM": "dumb"}, PlainView),
        ("auto", Terminal(), {}, PlainView),
        ("auto", Terminal(), {"TERM": "xterm", "CI": "true"}, PlainView),
        ("auto", io.StringIO(), {"TERM": "xterm"}, PlainView),
        ("live", io.StringIO(), {}, LiveView),
        ("plain", Terminal(), {"TERM": "xterm"}, PlainView),
        ("quiet", Terminal(), {"TERM": "xterm"}, PlainView),
    ],
)
def test_which_view(console: str, stream: io.StringIO, environ: dict[str, str], kind: type) -> None:
    assert isinstance(make_view(console, stream=stream, environ=environ), kind)


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown console"):
        make_view("fancy")
