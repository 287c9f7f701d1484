"""What counts as different: tolerances that are declared before two runs are compared, each two-sided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mindrecipe.config.keys import nearest_word
from mindrecipe.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """``tolerance`` a metric may differ by (relative; of loss_correlation: the least correlation), and what the metric is."""

    tolerance: float
    what: str


THRESHOLDS: Mapping[str, Threshold] = {
    "loss_correlation": Threshold(tolerance=0.999, what="least correlation of the two loss curves over their common steps"),
    "loss_pointwise": Threshold(tolerance=1e-3, what="largest relative difference of a loss, step by step"),
    "final_loss": Threshold(tolerance=0.01, what="relative difference of the mean of the last 20 losses"),
    "heldout_loss": Threshold(tolerance=0.01, what="relative difference of the held-out loss"),
    "throughput": Threshold(tolerance=0.025, what="relative difference of tokens/s (of the median step)"),
    "cpu_time": Threshold(tolerance=0.025, what="relative difference of an undisturbed step's CPU time (15th percentile; CPU only)"),
    "step_p95": Threshold(tolerance=0.10, what="relative difference of the 95th percentile of step times"),
    "evaluation_loss": Threshold(tolerance=0.01, what="relative difference of the loss of `mindrecipe evaluate`"),
    "evaluation_latency": Threshold(tolerance=0.05, what="relative difference of the median latency of a forward pass"),
    "evaluation_throughput": Threshold(tolerance=0.05, what="relative difference of its tokens/s"),
    "evaluation_memory": Threshold(tolerance=0.05, what="relative difference of its peak memory"),
    "memory": Threshold(tolerance=0.05, what="relative difference of the peak memory"),
}


def require(name: str, asked: str, mend: str) -> None:
    """UserError for a ``name`` that is no metric: what was ``asked``, and ``mend`` with the nearest one."""
    if name not in THRESHOLDS:
        near = nearest_word(name.rstrip("="), THRESHOLDS, 1)
        raise UserError(
            f"{asked}: there is no such metric; there are {', '.join(THRESHOLDS)}", mend=mend.format(near[0] if near else "throughput")
        )


def of_both(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[dict[str, float], str | None]:
    """The tolerances that were declared with one side or with both, of which the stricter count; and what is to be said of that."""
    strict = {name: (max if name == "loss_correlation" else min)(a[name], b[name]) for name in a if name in b}
    whole = {**a, **b, **strict}
    other = [name for name in strict if a[name] != b[name]]
    if other:
        return (
            whole,
            f"tolerances were declared with both sides: the stricter count ({', '.join(f'{name}={whole[name]:g}' for name in other)})",
        )
    return whole, "tolerances are those declared with B" if b and not a else None


def parse(words: Sequence[str], base: Mapping[str, float] | None = None) -> dict[str, float]:
    """Tolerances by metric: the defaults, ``base`` (a baseline's) over them, over those ``words``, name=number. UserError for others."""
    return {name: threshold.tolerance for name, threshold in THRESHOLDS.items()} | dict(base or {}) | declared(words)


def declared(words: Sequence[str]) -> dict[str, float]:
    """Those of ``words`` alone."""
    found: dict[str, float] = {}
    for word in words:
        name, equals, text = word.partition("=")
        require(name if equals else f"{name}=", f"--threshold {word}", f"--threshold {{}}={text or 0.05}")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise UserError(f"--threshold {word}: {text!r} is no tolerance", mend=f"--threshold {name}={THRESHOLDS[name].tolerance}")
        found[name] = value
    return found
