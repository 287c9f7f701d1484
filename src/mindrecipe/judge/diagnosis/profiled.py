"""What only a profile can tell: communication that computing does not hide, kernels too small for their launches, a pool in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.registry import Diagnosis, cause
from mindrecipe.judge.profile import links, memory, operators
from mindrecipe.judge.profile.files import DEVICE, folders
from mindrecipe.judge.profile.summary import profiled_steps
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.view import text

COMMUNICATION, IDLE, SHORT, PIECES = 0.20, 0.30, 50e-6, 0.20
#: what the pool grows by where memory.mempool_block_size is null (mindspore runtime/memory.py set_memory)
_BLOCK = 2 * 2**30


@cause
def communication_bound(run: Recorded) -> Iterator[Diagnosis]:
    """Devices wait for each other's data longer than computing hides."""
    found = [(told, folder) for folder in folders(run.path).values() if (told := links.shares(folder)) is not None]
    worst, folder = max(found, key=lambda each: each[0].exposed_share, default=(None, None))
    if worst is None or folder is None or worst.exposed_share <= COMMUNICATION:
        return
    tensor = int(run.derived.get("model_parallel") or 1)
    yield Diagnosis(
        cause="communication_bound",
        cost=worst.exposed_share,
        what=f"{100 * worst.exposed_share:.0f} % of the profiled time is communication that no computing hides",
        evidence=f"{(folder / DEVICE).relative_to(run.path)}/step_trace_time.csv: {links.EXPOSED} {1e3 * worst.exposed:.1f} ms",
        threshold=f"{100 * COMMUNICATION:.0f} %",
        mend=words.mend(
            words.change(run, parallel__use_seq_parallel=True) if tensor > 1 else None,
            words.larger_batch(run),
            words.more_at_a_time(run),
            "less model parallelism across hosts; options of device.parallel_speed_up that overlap communication with computing",
        ),
    )


@cause
def launch_bound(run: Recorded) -> Iterator[Diagnosis]:
    """Operators are over before the next one is launched: the host is what the steps wait for."""
    for rank, folder in folders(run.path).items():
        steps = operators.by_step(operators.read(folder), profiled_steps(run))
        if not steps:
            continue
        alone = operators.undisturbed(steps)
        if alone.idle_share <= IDLE or alone.operator >= SHORT:
            continue
        fused = run.derived.get("device_target") == "CPU" or words.value(run, "device.jit_level") in ("O1", "O2")
        fuses = None if fused else words.change(run, device__jit_level="O1", memory__optimize_level="O0")  # not both O1: rules/device.py
        yield Diagnosis(
            cause="launch_bound",
            cost=alone.idle_share,
            what=f"{100 * alone.idle_share:.0f} % of a step no operator runs: {len(steps[0])} of them, {1e6 * alone.operator:.0f} us each",
            evidence=f"{folder.relative_to(run.path)}: rank {rank}, operators and gaps, the least of each in {len(steps)} profiled steps",
            threshold=f"{100 * IDLE:.0f} %, with operators below {1e6 * SHORT:.0f} us",
            mend=words.mend(
                f"{words.larger_batch(run)} (gives each operator more to do)",
                f"{fuses} (fuses small operators)" if fuses else None,
            ),
        )
        return


@cause
def memory_fragmented(run: Recorded) -> Iterator[Diagnosis]:
    """The pool holds much more than was ever in use at once: what is free lies in pieces too small for what was asked."""
    written = re.fullmatch(r"([\d.]+)\s*GB", str(run.config.get("memory", {}).get("mempool_block_size")))
    block = float(written.group(1)) * 2**30 if written else _BLOCK
    for rank, folder in folders(run.path).items():
        held = memory.read(folder)
        if held is None or held.reserved is None or held.fragmentation is None:
            continue
        spare = held.reserved - held.allocated
        if held.fragmentation <= PIECES or spare <= block:  # one block that has just been added is no fragmentation
            continue
        yield Diagnosis(
            cause="memory_fragmented",
            cost=0.02,
            what=f"{100 * held.fragmentation:.0f} % of the memory pool was never in use at once: {text.size(spare)}",
            evidence=f"{(folder / DEVICE).relative_to(run.path)}/memory_record.csv: rank {rank}, {text.size(held.reserved)} reserved, "
            f"{text.size(held.allocated)} allocated at most",
            threshold=f"{100 * PIECES:.0f} %, and more than one block of the pool ({text.size(int(block))})",
            mend=words.mend(_virtual(run), _planned_reuse(run), "rows of one length, so that pieces fit again"),
        )
        return


def _virtual(run: Recorded) -> str | None:
    """Where it is not said already."""
    set_already = "enable_vmm:true" in str((words.value(run, "launch.env") or {}).get("MS_ALLOC_CONF"))
    return None if set_already else "launch.env.MS_ALLOC_CONF=enable_vmm:true (puts pieces together where the driver can)"


def _planned_reuse(run: Recorded) -> str | None:
    """Not with jit_level O1 (rules/device.py, memory.jit_level)."""
    if words.value(run, "memory.optimize_level") == "O1" or words.value(run, "device.jit_level") == "O1":
        return None
    return "memory.optimize_level=O1 (plans reuse beforehand)"
