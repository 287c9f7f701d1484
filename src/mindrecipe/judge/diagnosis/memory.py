"""Memory that is nearly used up, or was."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.registry import Diagnosis, cause
from mindrecipe.judge.diagnosis.remedies import remedies
from mindrecipe.judge.recorded import Recorded
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


@cause
def out_of_memory(run: Recorded) -> Iterator[Diagnosis]:
    """A rank failed because it was given no more memory."""
    if run.summary.get("state") not in ("failed", "interrupted"):
        return
    for error in run.summary.get("errors") or ():
        said = f"{error.get('type')} {error.get('message')} {error.get('traceback') or ''}"
        lines = last_lines(run.path / "logs" / f"rank_{error.get('rank') or 0}.log", 200)
        found = next((line for line in [said, *lines] if _OUT.search(line)), None)
        if found is None:
            continue
        match = _OUT.search(found)
        assert match is not None
        yield Diagnosis(
            cause="out_of_memory",
            cost=1.0,
            what=f"rank {error.get('rank') or 0} ended because it got no more memory",
            evidence=f"logs/rank_{error.get('rank') or 0}.log: {found[max(0, match.start() - 40) : match.end() + 240].strip()}",
            threshold="",
            mend=words.mend(*remedies(run)),
        )
        return
    yield from _killed(run)


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
