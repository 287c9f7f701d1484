"""The summary as rows of a label and a text, the same for a terminal's table and for a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.summary import Summary
from mindrecipe.measure.view import text
from mindrecipe.measure.view.base import Header

STYLES = {"completed": "bold green", "interrupted": "bold yellow", "failed": "bold red", "diverged": "bold red"}
STYLES |= {"dry_run": "bold", "frozen": "bold"}
_ERROR_LINES = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the summary; ``copied`` marks a path or a command, which a person copies: it is never cut, wrapped or framed."""

    label: str
    value: str
    style: str = ""
    copied: bool = False


def summary_rows(header: Header, outcome: Outcome, summary: Summary) -> list[Row]:
    """State, figures, places, and what to do next; rows without a figure are left out."""
    rows = [Row("state", outcome.state, STYLES[outcome.state])]
    rows += _fault(outcome, summary)
    rows += _figures(summary)
    rows += _places(header, outcome, summary)
    return rows + _next(header, outcome, summary)


def _fault(outcome: Outcome, summary: Summary) -> list[Row]:
    rows = []
    if summary.first_bad_step is not None:
        rows.append(Row("first bad", f"step {summary.first_bad_step}", "red"))
    if outcome.errors:
        cause = outcome.errors[0]
        lines = [line for line in f"{cause.type}: {cause.message}".splitlines() if line.strip()]
        rows.append(Row("cause", f"{cause.who}: {lines[0]}", "red"))
        rows += [Row("", line, "red") for line in lines[1:_ERROR_LINES]]
    for error in outcome.errors[1:]:
        rows.append(Row("followed", f"{error.who}: {error.first_line}", "dim"))
    if outcome.errors and outcome.stopped:
        named = ", ".join(f"rank {rank}" for rank in outcome.stopped[:8])
        rows.append(Row("stopped", named + (f" and {len(outcome.stopped) - 8} more" if len(outcome.stopped) > 8 else ""), "dim"))
    return rows + [Row("note", note, "yellow") for note in outcome.notes]


def _figures(summary: Summary) -> list[Row]:
    rows = [Row("steps", f"{summary.steps} of {summary.total_steps}" if summary.total_steps else str(summary.steps))]
    if summary.first_loss is not None and summary.final_loss is not None:
        rows.append(Row("loss", f"{text.loss(summary.first_loss)} -> {text.loss(summary.final_loss)}"))
    if summary.heldout_loss is not None and summary.perplexity is not None:
        rows.append(Row("held-out", f"loss {text.loss(summary.heldout_loss)}, perplexity {summary.perplexity:.4g}"))
        if summary.unigram_entropy is not None:
            rows.append(Row("", f"against a unigram entropy of {text.loss(summary.unigram_entropy)}"))
    if summary.tokens_per_s is not None:
        rate = f", {text.tflops(summary.tflops_per_device)} a device" if summary.tflops_per_device is not None else ""
        share = f", MFU {summary.mfu:.1%}" if summary.mfu is not None else rate
        rows.append(Row("speed", f"{text.quantity(summary.tokens_per_s)} tokens/s{share}"))
    p50, p95 = summary.step_time["p50"], summary.step_time["p95"]
    if p50 is not None and p95 is not None:
        rows.append(Row("step time", f"p50 {text.seconds(p50)}, p95 {text.seconds(p95)}"))
    stalled = summary.save_stall / p50 if summary.save_stall and p50 else 0.0
    if summary.save_stall and stalled >= 0.05:  # steps; the save at the end of training stalls none
        rows.append(Row("saving", f"{text.seconds(summary.save_stall)} each, {stalled:.1f} steps"))
    if summary.time_to_first_step is not None:
        rows.append(Row("first step", f"after {text.seconds(summary.time_to_first_step)}"))
    if summary.peak_memory_bytes is not None:
        rows.append(Row("memory", f"peak {text.size(summary.peak_memory_bytes)} a rank"))
    if summary.overflow_steps:
        rows.append(Row("overflow", f"{summary.overflow_steps} step{'s' if summary.overflow_steps > 1 else ''} skipped"))
    return rows


def _places(header: Header, outcome: Outcome, summary: Summary) -> list[Row]:
    rows = [Row("run", text.shown_path(header.run_dir), copied=True)]
    if summary.checkpoints:
        rows.append(Row("checkpoint", text.shown_path(header.run_dir / summary.checkpoints[-1]), copied=True))
    if outcome.errors:
        rows.append(Row("log", text.shown_path(header.run_dir / outcome.errors[0].log), copied=True))
    return rows


def _next(header: Header, outcome: Outcome, summary: Summary) -> list[Row]:
    """What a person does now."""
    resumable = header.resume_hint if summary.checkpoints else None
    if outcome.state == "completed":
        return [Row("metrics", text.shown_path(Path(header.run_dir) / "metrics.jsonl"), copied=True)]
    if outcome.state == "diverged":
        return [Row("next", "lower optimizer.learning_rate, lengthen schedule.warmup_steps, or set optimizer.grad_clip", "bold")]
    rows = [Row("next", "read the log", "bold")] if outcome.state == "failed" else []
    if resumable:
        rows.append(Row("resume", resumable, "bold", copied=True))
    elif outcome.state == "interrupted":
        rows.append(Row("next", "no checkpoint was saved yet: start again", "bold"))
    return rows
