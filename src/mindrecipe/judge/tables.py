"""Tables as text: a rich table on a terminal, tab-separated in a pipe; Markdown for files. Numbers in base units for programs:
CSV and JSON. Figures of a comparison in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mindrecipe.judge.compare import Comparison
from mindrecipe.judge.verdicts import Metric
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.view import text

COMPARED = ("metric", "verdict", "A", "B", "difference", "95 % interval", "tolerance", "note")
_STYLES = {"same": "green", "better": "bold yellow", "worse": "bold red", "unclear": "yellow", "not comparable": "bold yellow"}


def style(verdict: str) -> str:
    """The style of a verdict on a terminal; "better" warns too: what can't be explained is as suspect as a regression."""
    return _STYLES.get(verdict, "")


def compared(comparison: Comparison) -> list[list[str]]:
    """One row a metric, under :data:`COMPARED`."""
    return [
        [
            metric.name,
            metric.verdict,
            figure(metric.name, metric.a),
            figure(metric.name, metric.b),
            percent(metric.difference),
            "" if metric.low is None or metric.high is None else f"{percent(metric.low)} to {percent(metric.high)}",
            _tolerance(metric),
            metric.note,
        ]
        for metric in comparison.metrics
    ]


def figure(name: str, value: float | None) -> str:
    """A figure in the unit of its metric."""
    if value is None:
        return "-"
    if name == "completed":
        return "yes" if value else "no"
    if name in ("loss_correlation", "loss_pointwise"):
        return f"{value:.6g}"
    if name.endswith("loss"):
        return text.loss(value)
    if name.endswith("memory"):
        return text.size(int(value))
    if name.startswith("step") or name in ("cpu_time", "evaluation_latency"):
        return text.seconds(value)
    return text.quantity(value)


def percent(value: float | None) -> str:
    """+1.2 %; nothing for null."""
    return "" if value is None else f"{100 * value:+.1f} %"


def _tolerance(metric: Metric) -> str:
    if metric.name == "completed":
        return ""
    if metric.name == "loss_correlation":
        return f">= {metric.tolerance:g}"
    return f"{100 * metric.tolerance:g} %"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return "\n".join([*head, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)]) + "\n"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of figures: ``name`` and ``form`` for people; for programs ``key``, with the base unit of its numbers."""

    name: str
    key: str
    form: Callable[[Any], str] = str


def told(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The rows as people read them; nothing for null."""
    return [["" if value is None else column.form(value) for column, value in zip(columns, row, strict=True)] for row in rows]


def records(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows as JSON has them; what is not finite is text."""
    return [{column.key: plain(value) for column, value in zip(columns, row, strict=True)} for row in rows]


def comma_separated(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> str:
    """CSV with a header: numbers in base units, nothing for null."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.key for column in columns])
    writer.writerows([yes_or_no(value) if isinstance(value, bool) else value for value in row] for row in rows)
    return out.getvalue()


def yes_or_no(value: bool) -> str:
    """In words."""
    return "yes" if value else "no"
