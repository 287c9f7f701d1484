"""What one rank does to the others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded

STRAGGLER = 0.10


@cause
def straggler(run: Recorded) -> Iterator[Diagnosis]:
    """One rank comes late to every step, and the others wait for it inside of their computing."""
    ranks = run.rank_timed
    if len(ranks) < 2 or min(map(len, ranks.values())) < LEAST_STEPS:
        return
    own = {rank: statistics.fmean(record.data_time + record.other_time for record in records) for rank, records in ranks.items()}
    last = max(own, key=lambda rank: own[rank])
    others = statistics.median(value for rank, value in own.items() if rank != last)
    whole = statistics.fmean(record.data_time + record.compute_time + record.other_time for record in ranks[last])
    share = (own[last] - others) / whole
    if share <= STRAGGLER:
        return
    data = statistics.fmean(record.data_time for record in ranks[last])
    where = "waits for its data" if data > own[last] / 2 else "is held up by callbacks"
    yield Diagnosis(
        cause="straggler",
        cost=share,
        what=f"rank {last} {where}, and all others wait for it: {100 * share:.0f} % of every step",
        evidence=f"logs/rank_{last}.steps.jsonl: {1e3 * own[last]:.0f} ms a step outside of computing, {1e3 * others:.0f} ms on the others",
        threshold=f"{100 * STRAGGLER:.0f} % of a step",
        mend=f"look at rank {last}'s host: its disk, its data, its other work; take the host out if it stays slow",
    )
