"""Memory that is nearly used up, or was."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.registry import Diagnosis, cause
from mindrecipe.judge.diagnosis.remedies import remedies
from mindrecipe.judge.recorded import Recorded
from mindrecipe.launch.disk import DISK_FULL
from mindrecipe.launch.peers import STOPPED
from mindrecipe.measure.outcome import who
from mindrecipe.measure.tail import last_lines
from mindrecipe.measure.view import text

NEAR = 0.92
#: of the host's memory, when last sampled: the kernel kills a while after, when the rest is gone as well
TIGHT = 0.80
#: what the system, the allocators of MindSpore and those of the device say (strings of mindspore's libraries)
_OUT = re.compile(
    r"out of memory|bad_alloc|MemoryError|Cannot allocate memory|(?:Alloc(?:ate)?|Malloc)(?: device)? memory failed"
    r"|memory (?:is not|isn't|not) enough",
    re.IGNORECASE,
)
#: as launch/failure.py tells it
_KILLED = re.compile("killed by SIGKILL")
_LOG = re.compile(r"rank_(?P<rank>\d+)\.log")


@cause
def out_of_memory(run: Recorded) -> Iterator[Diagnosis]:
    """A rank failed because it was given no more memory."""
    if run.summary.get("state") not in ("failed", "interrupted"):
        return
    for error in run.summary.get("errors") or ():
        for blamed, place, said in _said(run, error):
            match = _OUT.search(said)
            if match is None:
                continue
            yield Diagnosis(
                cause="out_of_memory",
                cost=1.0,
                what=f"{who(blamed)} ended because it got no more memory",
                evidence=f"{place}: {said[max(0, match.start() - 40) : match.end() + 240].strip()}",
                threshold="",
                mend=words.mend(*remedies(run)),
            )
            return
    yield from _killed(run)


def _said(run: Recorded, error: Mapping[str, Any]) -> Iterator[tuple[int | None, str, str]]:
    """What may tell of memory: whose it is, where it stands, the words. The error's own, then the last lines of its rank's log; of all
    ranks' where the launch failed and does not know why (a job that hangs, an msrun that left)."""
    rank = error.get("rank")
    yield rank, "summary.json: errors", f"{error.get('type')} {error.get('message')} {error.get('traceback') or ''}"
    if rank is None and error.get("type") in (DISK_FULL, STOPPED):
        return
    logs = run.path / "logs"
    ranks = (int(found["rank"]) for log in logs.glob("rank_*.log") if (found := _LOG.fullmatch(log.name)))
    for each in sorted(ranks) if rank is None else [int(rank)]:
        log = logs / f"rank_{each}.log"
        yield from ((each, f"logs/{log.name}", line) for line in last_lines(log, 200))


def _killed(run: Recorded) -> Iterator[Diagnosis]:
    """Ranks that the kernel killed say nothing, and its own log is not ours to read: told where the host's memory was nearly used up."""
    whole = (run.lock.get("machine") or {}).get("memory_bytes")
    for error in run.summary.get("errors") or ():
        rank, here = error.get("rank"), int(run.derived.get("devices_per_node") or 1)
        if rank is None or rank >= here:  # msrun itself; or a rank of a host whose memory is not known
            continue
        samples = [sample for sample in run.usage.get(rank, ()) if sample.time <= (error.get("time") or math.inf)]
        if error.get("followed") or not _KILLED.search(str(error.get("message"))) or not samples or not whole:
            continue
        last = samples[-1]
        if last.host_memory <= TIGHT * whole:
            continue
        yield Diagnosis(
            cause="out_of_memory",
            cost=1.0,
            what=f"rank {rank} was killed, most likely by the kernel, as this host had no more memory",
            evidence=f"summary.json: {_KILLED.pattern}; logs/rank_{rank}.usage.jsonl: at last {text.size(last.rss)} of its own (rss), "
            f"{text.size(last.host_memory)} of the host's {text.size(int(whole))}; `dmesg` has a line of it where you may read that",
            threshold=f"{100 * TIGHT:.0f} % of the host's memory",
            mend=words.mend(*remedies(run), "end what else runs on this host"),
        )
        return


@cause
def memory_near_limit(run: Recorded) -> Iterator[Diagnosis]:
    """The next longer row, or a little fragmentation, will be too much."""
    peak, limit, of = run.summary.get("peak_memory_bytes"), *_limit(run)
    if not peak or not limit or peak <= NEAR * limit:
        return
    yield Diagnosis(
        cause="memory_near_limit",
        cost=0.01,
        what=f"peak memory is {100 * peak / limit:.0f} % of what there is",
        evidence=f"metrics.jsonl: memory_bytes up to {text.size(peak)} of {text.size(int(limit))} ({of})",
        threshold=f"{100 * NEAR:.0f} %",
        mend=words.mend(*remedies(run)),
    )


def _limit(run: Recorded) -> tuple[float | None, str]:
    """Bytes that one rank may use: its device's pool, on CPU its share of the host's memory."""
    if run.derived.get("device_target") != "CPU":
        pool = re.fullmatch(r"([\d.]+)\s*GB", str(run.config.get("memory", {}).get("max_device_memory")))
        return (float(pool.group(1)) * 2**30 if pool else None), "memory.max_device_memory"
    host = (run.lock.get("machine") or {}).get("memory_bytes")
    local = int(run.derived.get("devices_per_node") or 1)
    return (host / local if host else None), "this host's memory, shared by its ranks"
