"""One frame of the live view as lines of text that fit the width they are given: pure, so that every width can be tested."""

from __future__ import annotations

import math

from rich.text import Text

from mindrecipe.measure.outcome import RankError
from mindrecipe.measure.record import StepRecord
from mindrecipe.measure.view import text
from mindrecipe.measure.view.base import Header
from mindrecipe.measure.view.progress import Progress

_LABEL = 7
_GAP = 3
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_SPINNER = "|/-\\"


def frame_lines(
    header: Header, progress: Progress, width: int, *, ascii_only: bool = False, failure: RankError | None = None
) -> list[Text]:
    """The lines of the frame, none wider than ``width`` columns: phases until the first step has ended, then progress."""
    record = progress.last
    lines = [_phase(progress, width, ascii_only)]
    if record is not None:
        lines = [_bar(progress, record, width, ascii_only), _loss(progress, record, width, ascii_only)]
        lines += _flow("speed", _speed(progress, record), width)
        lines += _flow("optim", _optimizer(progress, record), width)
        if progress.phase in ("evaluate", "done"):
            lines.append(_phase(progress, width, ascii_only))
    if progress.saved:
        lines.append(_labelled("saved", f"checkpoint of step {progress.saved}"))
    if failure is not None:
        lines.append(_labelled("failed", f"{failure.who}: {failure.first_line}", "red"))
    lines.append(_labelled("run", text.cut_left(text.shown_path(header.run_dir), width - _LABEL, ascii_only=ascii_only)))
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _phase(progress: Progress, width: int, ascii_only: bool) -> Text:
    frames = _ASCII_SPINNER if ascii_only else _SPINNER
    turn = frames[int(progress.elapsed * 8) % len(frames)]
    times = f"{text.duration(progress.phase_elapsed)} ({text.duration(progress.elapsed)} in all)"
    return Text.assemble((f"{turn:<{_LABEL}}", "cyan"), progress.phase_label, " " * _GAP, (times, "dim"))


def _bar(progress: Progress, record: StepRecord, width: int, ascii_only: bool) -> Text:
    if progress.total_steps is None or progress.share is None:
        return _labelled("step", f"{record.step}   {text.duration(progress.elapsed)}", "bold")
    head = f"{record.step:>{len(str(progress.total_steps))}}/{progress.total_steps}"
    left = "" if progress.eta is None else f"   ETA {text.duration(progress.eta)}"
    tail = f"{progress.share:>4.0%}   {text.duration(progress.elapsed)}{left}"
    room = width - _LABEL - len(head) - len(tail) - 4
    line = _labelled("step", head, "bold")
    if room >= 5:
        filled = round(progress.share * room)
        done, rest = ("#", "-") if ascii_only else ("━", "─")
        line.append("  ").append(done * filled, "green").append(rest * (room - filled), "dim")
    return line.append("  ").append(tail)


def _loss(progress: Progress, record: StepRecord, width: int, ascii_only: bool) -> Text:
    good = math.isfinite(record.loss)
    line = _labelled("loss", f"{text.loss(record.loss):<8}", "bold" if good else "bold red")
    origin = f"from {text.loss(progress.first.loss)}" if progress.first is not None else ""
    room = min(60, width - line.cell_len - len(origin) - 2 * _GAP)
    curve = text.sparkline(progress.curve.values(), room, ascii_only=ascii_only) if room >= 4 else ""
    if curve:
        line.append(" " * _GAP).append(curve, "cyan")
    return line.append(" " * _GAP).append(origin, "dim")


def _speed(progress: Progress, record: StepRecord) -> list[str]:
    fields = [f"{text.quantity(progress.tokens_per_s or 0.0)} tokens/s", f"{text.seconds(progress.step_time or 0.0)}/step"]
    if record.mfu is not None:
        fields.append(f"MFU {record.mfu:.1%}")
    elif record.tflops_per_device is not None:
        fields.append(text.tflops(record.tflops_per_device))
    if record.memory_bytes is not None:
        fields.append(f"memory {text.size(record.memory_bytes)}")
    return fields


def _optimizer(progress: Progress, record: StepRecord) -> list[str]:
    fields = [f"lr {record.lr:.2e}"]
    if record.grad_norm is not None:
        fields.append(f"grad norm {record.grad_norm:.3g}")
    if record.loss_scale is not None and record.loss_scale != 1:
        fields.append(f"loss scale {record.loss_scale:g}")
    if progress.overflows:
        fields.append(f"{progress.overflows} overflow{'s' if progress.overflows > 1 else ''}")
    return fields


def _flow(label: str, fields: list[str], width: int) -> list[Text]:
    """The fields in as few lines as hold them whole."""
    rows: list[str] = []
    for field in fields:
        if rows and len(rows[-1]) + _GAP + len(field) <= width - _LABEL:
            rows[-1] += " " * _GAP + field
        else:
            rows.append(field)
    return [_labelled(label if index == 0 else "", row) for index, row in enumerate(rows)]


def _labelled(label: str, value: str, style: str = "") -> Text:
    return Text.assemble((f"{label:<{_LABEL}}", "dim"), (value, style))
