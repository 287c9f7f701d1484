"""What only a profile can tell: communication that computing does not hide, kernels too small for their launches, a pool in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    yield Diagnosis(
        cause="communication_bound",
        cost=worst.exposed_share,
        what=f"{100 * worst.exposed_share:.0f} % of the profiled time is communication that no computing hides",
        evidence=f"{(folder / DEVICE).relative_to(run.path)}/step_trace_time.csv: {links.EXPOSED} {1e3 * worst.exposed:.1f} ms",
        threshold=f"{100 * COMMUNICATION:.0f} %",
        mend="less parallel.model_parallel across hosts, parallel.use_seq_parallel=true, a larger dataset.batch_size or "
        "parallel.gradient_accumulation_steps, device.parallel_speed_up with overlap options",
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
        batch = int(run.config.get("dataset", {}).get("batch_size") or 1)
        fuses = "" if run.derived.get("device_target") == "CPU" else "; device.jit_level=O1 fuses small operators"
        yield Diagnosis(
            cause="launch_bound",
            cost=alone.idle_share,
            what=f"{100 * alone.idle_share:.0f} % of a step no operator runs: {len(steps[0])} of them, {1e6 * alone.operator:.0f} us each",
            evidence=f"{folder.relative_to(run.path)}: rank {rank}, operators and gaps, the least of each in {len(steps)} profiled steps",
            threshold=f"{100 * IDLE:.0f} %, with operators below {1e6 * SHORT:.0f} us",
            mend=f"dataset.batch_size={2 * batch} gives each operator more to do{fuses}",
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
            mend="launch.env.MS_ALLOC_CONF=enable_vmm:true puts pieces together where the driver can; memory=O1 plans reuse beforehand",
        )
        return
