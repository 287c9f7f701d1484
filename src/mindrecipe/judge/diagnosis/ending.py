"""A run that did not come to its end, for a reason that no other cause names."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.memory import out_of_memory
from mindrecipe.judge.diagnosis.registry import Diagnosis, cause
from mindrecipe.judge.recorded import Recorded

_WHO_KILLED = "see in `dmesg`, and in the memory limit of the container or job, whether it was the kernel for lack of memory"


@cause
def failed(run: Recorded) -> Iterator[Diagnosis]:
    """The first error is the cause; what followed from it is left out."""
    errors = run.summary.get("errors") or ()
    if run.summary.get("state") != "failed" or not errors or any(out_of_memory(run)):
        return
    first = errors[0]
    said = str(first.get("message") or "").strip().partition("\n")[0]
    yield Diagnosis(
        cause="failed",
        cost=1.0,
        what=f"rank {first.get('rank')} failed: {first.get('type')}: {said}",
        evidence=str(first.get("log")),
        threshold="",
        mend=words.mend("read that log from its end upwards", _WHO_KILLED if "killed by SIGKILL" in said else None),
    )
