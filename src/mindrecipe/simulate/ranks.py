"""Which ranks are worth simulating: those of one pipeline stage compile the same graph, on slices of the same shapes."""

from __future__ import annotations

import re

from mindrecipe.errors import UserError

FIRST_OF_EACH_STAGE = "first-of-each-stage"
ALL = "all"


def stage_of(rank: int, device_num: int, stages: int) -> int:
    """The pipeline stage of a rank: MindSpore gives each stage ranks that follow each other."""
    return rank // (device_num // stages)


def chosen(asked: str, device_num: int, stages: int) -> tuple[int, ...]:
    """The ranks that ``asked`` names, in order.

    ``first-of-each-stage`` are all that differ: in a sharded graph the ranks of one stage run the same program, and stages differ in
    layers, embedding, loss and in how many micro batches they hold. ``all``; or a list such as ``0,4,8-11``. UserError otherwise.
    """
    if asked == FIRST_OF_EACH_STAGE:
        return tuple(range(0, device_num, max(1, device_num // stages)))
    if asked == ALL:
        return tuple(range(device_num))
    ranks: set[int] = set()
    for part in asked.split(","):
        bounds = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if last < first:
            mend = f"{FIRST_OF_EACH_STAGE}, {ALL}, or such as 0,4,8-11"
            raise UserError(f"{part.strip() or asked!r} names no ranks", where=f"ranks {asked}", mend=mend)
        if last >= device_num:
            raise UserError(
                f"there is no rank {last}: the job has {device_num} devices", where=f"ranks {asked}", mend=f"ranks of 0-{device_num - 1}"
            )
        ranks |= set(range(first, last + 1))
    return tuple(sorted(ranks))
