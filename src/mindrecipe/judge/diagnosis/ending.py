"""A run that did not come to its end, for a reason that no other cause names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.memory import out_of_memory
from mindrecipe.judge.diagnosis.registry import Diagnosis, cause
from mindrecipe.judge.recorded import Recorded
from mindrecipe.launch.disk import DISK_FULL
from mindrecipe.launch.peers import STOPPED
from mindrecipe.launch.stall import STALLED
from mindrecipe.measure.outcome import who

_WHO_KILLED = "see in `dmesg`, and in the memory limit of the container or job, whether it was the kernel for lack of memory"
_SUMMARY = "summary.json: errors"


@cause
def failed(run: Recorded) -> Iterator[Diagnosis]:
    """The first error is the cause; what followed from it is left out."""
    errors = run.summary.get("errors") or ()
    if run.summary.get("state") != "failed" or not errors or any(out_of_memory(run)):
        return
    first = errors[0]
    said = str(first.get("message") or "").strip().partition("\n")[0]
    evidence, mend = _of(run, first, said)
    yield Diagnosis(
        cause="failed",
        cost=1.0,
        what=f"{who(first.get('rank'))} failed: {first.get('type')}: {said}",
        evidence=evidence,
        threshold="",
        mend=mend,
    )


def _of(run: Recorded, error: Mapping[str, Any], said: str) -> tuple[str, str]:
    """Evidence and mend by the type of ``error``: a rank's own is in its log, but one of no rank may name a folder, or nothing to read."""
    kind, log = error.get("type"), str(error.get("log"))
    if kind == DISK_FULL:
        kept = int(words.value(run, "checkpoint.keep") or 1)
        often = words.value(run, "checkpoint.save_steps") or words.value(run, "checkpoint.save_minutes")
        fewer = f"checkpoint.keep={kept // 2}" if often and kept > 1 else None
        return _SUMMARY, words.mend("make room on that disk, or name a folder on a larger one for runs (run.root)", fewer)
    if kind == STALLED:
        patience = words.value(run, "launch.stall_min")
        longer = (
            f"launch.stall_min={2 * float(patience):g} (where nothing hung, and a step or a save may take so long)" if patience else None
        )
        seen = "compare the last lines of the ranks' logs: the rank that made the others wait ends otherwise than they do"
        return f"{_SUMMARY}; {log}/rank_N.log", words.mend(seen, longer)
    if kind == STOPPED:
        return _SUMMARY, "see on that host why it was stopped: in what its own `train` printed, or in its scheduler's record"
    if error.get("rank") is None:
        return f"{_SUMMARY}; {log}", "read what it names from its end upwards, then the logs of the ranks (logs/rank_N.log)"
    return log, words.mend("read that log from its end upwards", _WHO_KILLED if "killed by SIGKILL" in said else None)
