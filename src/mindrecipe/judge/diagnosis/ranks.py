"""What one rank does to the others.

All ranks leave a collective together, so that the time of a step says nothing of who computed longest. On CPU each rank's own CPU
time does: one that waits uses little. On Ascend the device computes, and the host's CPU time tells nothing of it; a profile of each
rank does (profile=steps, each rank's step_trace_time.csv).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded

STRAGGLER, SKEW = 0.10, 0.25


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


@cause
def compute_skew(run: Recorded) -> Iterator[Diagnosis]:
    """One rank of a CPU run works longer at each step than the others, who wait for it inside of their computing."""
    ranks = {rank: [record.cpu_time for record in records if record.cpu_time is not None] for rank, records in run.rank_timed.items()}
    if len(ranks) < 2 or min(map(len, ranks.values())) < LEAST_STEPS or run.derived.get("device_target") != "CPU":
        return
    own = {rank: statistics.median(times) for rank, times in ranks.items()}
    last = max(own, key=lambda rank: own[rank])
    others = statistics.median(value for rank, value in own.items() if rank != last)
    step = statistics.median(record.data_time + record.compute_time + record.other_time for record in run.rank_timed[last])
    share = 1 - others / own[last] if own[last] else 0.0
    if share <= SKEW or own[last] - others <= STRAGGLER * step:
        return
    yield Diagnosis(
        cause="compute_skew",
        cost=min(share, 1.0),
        what=f"rank {last} computes longer than the others, which wait for it: {100 * share:.0f} % of its work at a step is its alone",
        evidence=f"logs/rank_{last}.steps.jsonl: {1e3 * own[last]:.0f} ms of CPU time a step, {1e3 * others:.0f} ms on the others",
        threshold=f"{100 * SKEW:.0f} % of its CPU time, and {100 * STRAGGLER:.0f} % of a step",
        mend=f"see what rank {last} does besides: longer rows in its shard, its own callbacks, threads that no other rank has",
    )
