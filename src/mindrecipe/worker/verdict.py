"""When a run is past saving: decided step by step, the same way on every rank.

A skipped update (overflow) is ordinary life under a dynamic loss scale: the scale shrinks and training goes on. It is the end when
that does not help: the loss itself stays not a number, or updates are skipped again and again although the scale no longer falls.
"""

from __future__ import annotations

import math

from mindrecipe.worker.failure import Diverged, Overflow

MOST_BAD_LOSSES = 3
"""Losses in a row that may be infinite or NaN under a dynamic loss scale; without one not even the first is forgiven."""


class Verdict:
    """Feed every step to :meth:`judge`; it raises Diverged at the step that decides it.

    ``dynamic``: a dynamic loss scale is at work, so that a skipped update may be mended by a smaller scale. ``most_skipped`` updates
    in a row may be skipped at a loss scale that does not fall; ``skip``: so many bad losses are forgiven without one, too.
    """

    def __init__(self, *, dynamic: bool, most_skipped: int = 8, skip: bool = False) -> None:
        self._forgiven_losses = most_skipped if skip else MOST_BAD_LOSSES if dynamic else 0
        self._most_skipped = most_skipped
        self._bad_losses = 0
        self._skipped = 0
        self._scale = math.inf
        self._first_bad = 0

    @property
    def undecided(self) -> int | None:
        """The first of the bad steps in a row that are borne so far; None as long as the last step was a good one."""
        return self._first_bad if self._bad_losses or self._skipped else None

    def judge(self, step: int, loss: float, *, overflow: bool, loss_scale: float | None) -> None:
        """``loss`` must be the job's, so that all ranks come to the same verdict at the same step.

        A loss that is not finite is only forgiven when the update it would have led to was skipped.
        """
        bad = not math.isfinite(loss)
        if not (bad or overflow):
            self._bad_losses = self._skipped = 0
            self._scale = math.inf if loss_scale is None else loss_scale
            return
        if self._bad_losses == self._skipped == 0:
            self._first_bad = step
        self._count(bad=bad, loss_scale=loss_scale)
        if bad and (not overflow or self._bad_losses > self._forgiven_losses):
            raise Diverged(f"the loss is {loss} at step {self._first_bad}", step=self._first_bad, loss=loss)
        if self._skipped > self._most_skipped:
            raise Overflow(
                f"no update since step {self._first_bad}: the gradients overflow at every step, at a loss scale of {loss_scale}",
                step=self._first_bad,
                loss=loss,
            )

    def _count(self, *, bad: bool, loss_scale: float | None) -> None:
        self._bad_losses = self._bad_losses + 1 if bad else 0
        fell = loss_scale is not None and loss_scale < self._scale
        self._skipped = 1 if fell else self._skipped + 1
        self._scale = self._scale if loss_scale is None else loss_scale
