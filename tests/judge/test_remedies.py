"""What `diagnose` says to try, over all causes and several kinds of runs: words that can be pasted, and change something, or plain prose."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import profile_samples
import pytest
from runs import MACHINE, make, steps, usage

from mends import quick
from mindrecipe.freeze import derived_facts
from mindrecipe.judge.diagnosis import diagnose, words
from mindrecipe.judge.diagnosis.registry import Diagnosis, causes
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, RankStep, StepRecord
from mindrecipe.run import Run

Change = Callable[[StepRecord], StepRecord]
_WORD = re.compile(r"[+~]{0,2}[a-z_][\w.]*=\S*")
_TINY = ("+model=llama2_tiny", "schedule.total_steps=200")
_ASCEND = ("+model=llama2_7b", "device=ascend_910b", "schedule.total_steps=200")
#: runs that have already what is usually said to be tried, and some that have none of it
BASES: dict[str, tuple[str, ...]] = {
    "plain": _TINY,
    "has it all": (
        *_TINY, "checkpoint=steps", "checkpoint.save_steps=10", "checkpoint.async_save=true", "schedule.warmup_steps=20", "monitor.grad_groups=true",
        "monitor.update_ratio_steps=10", "monitor.tensorboard=true", "dataset.batch_size=8", "optimizer.grad_clip=0.5", "profile=steps",
        "recompute=full",
    ),
    "one reader": (*_TINY, "dataset.num_parallel_workers=1"),
    "half": (*_TINY, "amp=O2", "amp.loss_scale=dynamic", "schedule=cosine_annealing", "checkpoint=minutes", "optimizer=sgd",
             "+optimizer.extra.momentum=0.9", "optimizer.grad_clip=null", "dataset.drop_remainder=false"),
    "fixed scale": (*_TINY, "amp=O1", "amp.dtype=float16", "amp.loss_scale=fixed", "optimizer.grad_clip=null"),
    "mcore": ("+model=qwen3_tiny", "schedule.total_steps=200", "schedule.warmup_ratio=0.2", "checkpoint=off"),
    "mesh": (*_ASCEND, "parallel=semi_auto", "parallel.model_parallel=2", "launch.workers=8", "dataset.batch_size=2"),
    "stages": (*_ASCEND, "parallel=semi_auto", "amp=O2", "parallel.pipeline_stage=2", "parallel.model_parallel=2", "parallel.micro_batch_num=2",
               "parallel.use_seq_parallel=true", "launch.workers=8", "device.jit_level=O1", "launch.env.MS_ALLOC_CONF=enable_vmm:true",
               "memory.max_device_memory=30GB"),
    "old device": (*_ASCEND, "device=ascend_910a", "parallel=semi_auto", "amp=O3", "launch.workers=8", "memory=O1"),
}  # fmt: skip


def _slower(name: str, share: float = 0.4) -> Change:
    def change(record: StepRecord) -> StepRecord:
        extra = record.step_time * share / (1 - share)
        more = {name: extra, "step_time": record.step_time + extra}
        return replace(record, **(more | {"other_time": extra} if name == "checkpoint_time" else more))

    return change


def _loss(shape: Callable[[int], float]) -> Change:
    return lambda record: replace(record, loss=shape(record.step))


def _at(steps_: Sequence[int], **changes: Any) -> Change:
    return lambda record: replace(record, **changes) if record.step in steps_ else record


def _failed(kind: str, message: str, state: str = "failed", rank: int | None = 0) -> dict[str, Any]:
    error = RankError(rank=rank, type=kind, message=message, log="logs/rank_0.log", time=99.0, step=100)
    return {"outcome": Outcome(state=state, exit_code=1, errors=(error,))}


def _ranks(**late: float) -> dict[int, list[RankStep]]:
    base = {"data_time": 0.001, "compute_time": 0.2, "other_time": 0.001, "cpu_time": 0.2}
    return {
        rank: [RankStep(step=n, time=float(n), **(base | (late if rank else {}))) for n in range(1, 80)]  # type: ignore[arg-type]
        for rank in (0, 1)
    }


_BUSY = [usage(float(second), cpu=1.0, host_cpu=1.6) for second in range(15, 60, 5)]
_TRAINS = [Event(phase="train", rank=0, pid=1, time=10.0, detail={})]
_FULL = [usage(90.0, rss=15 * 2**30, host_memory=int(0.97 * 2**34))]
_STAYS: Change = lambda record: record  # noqa: E731
#: cause -> what its steps look like, and what else its directory holds
ILLS: dict[str, tuple[Change, dict[str, Any]]] = {
    "data_bound": (_slower("data_time"), {}),
    "checkpoint_stalls": (_slower("checkpoint_time"), {}),
    "host_bottleneck": (_slower("other_time"), {}),
    "recompilation": (_at((40, 60), compute_time=6.0, step_time=6.0, cpu_time=5.0), {}),
    "stalls": (_at((40,), compute_time=9.0, step_time=9.0), {}),
    "noisy_machine": (_STAYS, {"samples": _BUSY, "events": _TRAINS}),
    "drift": (lambda record: replace(record, step_time=record.step_time * (1.3 if record.step > 70 else 1)), {}),
    "low_mfu": (lambda record: replace(record, mfu=0.05), {}),
    "straggler": (_STAYS, {"ranks": _ranks(data_time=0.1)}),
    "compute_skew": (_STAYS, {"ranks": _ranks(cpu_time=0.4)}),
    "communication_bound": (_STAYS, {"profile": lambda path: profile_samples.trace(path, [(5, 7000.0, 3000.0, 500.0)], rank=1)}),
    "launch_bound": (_STAYS, {"profile": lambda path: profile_samples.kernels(path, took=10.0, every=30.0)}),
    "launch_bound on cpu": (_STAYS, {"profile": lambda path: profile_samples.cpu(path, scale=0.1, every=1200)}),
    "memory_fragmented": (_STAYS, {"profile": lambda path: profile_samples.pool(path, allocated=40.0, reserved=52.0)}),
    "out_of_memory": (_STAYS, _failed("RuntimeError", "std::bad_alloc")),
    "out_of_memory by the kernel": (_STAYS, _failed("Died", "killed by SIGKILL") | {"samples": _FULL}),
    "memory_near_limit": (lambda record: replace(record, memory_bytes=2**36), {}),
    "loss_not_a_number": (_loss(lambda n: 4.0 + max(0, n - 90) if n < 99 else math.nan), _failed("Diverged", "nan", "diverged")),
    "loss_rises": (_loss(lambda n: 4.0 + max(0, n - 40) / 20), {}),
    "loss_flat": (_loss(lambda n: 6.9 + 0.01 * (n % 3)), {}),
    "loss_spikes": (_loss(lambda n: 4.0 + 0.03 * (n % 3) + max(0.0, 3.0 - 0.5 * (n % 40)) * (n > 40)), {}),
    "dirty_data": (_loss(lambda n: 4.0 + 0.03 * (n % 3) + 2.0 * (n in (50, 80, 110))), {}),
    "loss_oscillates": (_loss(lambda n: 5.0 + 2.0 * math.sin(n * 1.7)), {}),
    "overflow_streaks": (lambda record: replace(record, overflow=record.step % 3 == 0), {}),
    "failed": (_STAYS, _failed("KeyError", "'x'")),
    "failed by hanging": (_STAYS, _failed("Stalled", "no step for 300 s", rank=None)),
    "failed for want of room": (_STAYS, _failed("DiskFull", "the disk of /runs is full", rank=None)),
    "failed elsewhere": (_STAYS, _failed("Stopped", "host 1 was interrupted", rank=None)),
    "failed by msrun": (_STAYS, _failed("Died", "msrun left with exit code 1", rank=None)),
    "failed by a signal": (_STAYS, _failed("Died", "killed by SIGKILL (by someone, or by the kernel for lack of memory)")),
}  # fmt: skip


def _recorded(folder: Path, base: Run, change: Change, more: dict[str, Any]) -> Recorded:
    """A run of ``base`` that is ill."""
    more = dict(more)
    profiled = more.pop("profile", None)
    path = make(folder, [change(record) for record in steps(120, seed=1, cpu_time=0.3)], **more)
    config = dataclasses.asdict(base.derived.config)
    if profiled is not None:
        config["profile"] |= {"enabled": True, "start": 5, "stop": 7}
        profiled(path)
    run = Recorded(path)
    facts = {**run.derived, **derived_facts(base.derived, None), "dataset": run.derived["dataset"]}
    # as the files have them, which take longer to be read than all causes to be asked
    run.__dict__.update(config=json.loads(json.dumps(config)), lock={**run.lock, "derived": facts, "machine": MACHINE})
    return run


def _acts(run: Run) -> Any:
    """Everything that a rank or its launcher reads of a run."""
    config = run.derived.config
    return run.lower(), dataclasses.asdict(config.monitor), dataclasses.asdict(config.profile), dataclasses.asdict(config.launch)


def _as_it_was(base: Sequence[str], word: str) -> str:
    """The word with the value that the run has without it."""
    key = word.lstrip("+").partition("=")[0]
    if "." not in key:  # an option of a group: what was taken before comes again
        return f"{key}={quick(*base).choices[key]}"
    found: Any = dataclasses.asdict(quick(*base).derived.config)
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else found
    return f"{key}={'null' if found is None else json.dumps(found)}"


def check_mend(found: Diagnosis, base: tuple[str, ...]) -> None:
    """AssertionError for a step that is neither words nor prose, that stops the run, or a word of which changes nothing."""
    assert found.mend, f"{found.cause} has nothing to try"
    for step in words.steps_of(found.mend):
        if "=" in step:
            wrong = _wrong(step, base)
            assert wrong is None, f"{found.cause}: {step}: {wrong}"


@cache
def _wrong(step: str, base: tuple[str, ...]) -> str | None:
    parts = step.split()
    if not all(map(_WORD.fullmatch, parts)):
        return "can't be pasted"
    mended = quick(*base, *parts)
    for finding in mended.check():
        stops = finding.severity == "error" or finding.rule == "environment.cores"  # which `train` takes for one
        if stops and finding not in quick(*base).check():
            return f"stops the run: {finding.what}"
    for part in parts:
        without = quick(*base, *(_as_it_was(base, other) if other == part else other for other in parts))
        if _acts(without) == _acts(mended):
            return f"{part} changes nothing of {' '.join(base)}"
    return None


@pytest.mark.parametrize("base", BASES)
def test_what_to_try_can_be_pasted_and_changes_something(base: str, tmp_path: Path) -> None:
    run = quick(*BASES[base])
    for ill, (change, more) in ILLS.items():
        for found in diagnose(_recorded(tmp_path / ill.replace(" ", "_"), run, change, more)):
            check_mend(found, BASES[base])


def test_every_cause_is_among_them(tmp_path: Path) -> None:
    """So that a new one is held to it as well."""
    found = set()
    for ill, (change, more) in ILLS.items():
        base = "fixed scale" if "on cpu" in ill or ill in ("noisy_machine", "compute_skew") else "mesh"
        ran = _recorded(tmp_path / ill.replace(" ", "_"), quick(*BASES[base]), change, more)
        found |= {each.cause for each in diagnose(ran)}
    assert found == {*causes(), "dirty_data"}


@pytest.mark.parametrize(
    ("mend", "why"),
    [
        ("checkpoint.async_save=true or fewer minutes between them", "can't be pasted"),
        ("dataset.batch_size=16, amp=O2, less model_parallel", "can't be pasted"),
        ("monitor.update_ratio_steps=null monitor.grad_groups=false", "changes nothing"),
        ("optimizer.learning_rate=0.001 schedule.warmup_ratio=0.1", "changes nothing"),
        ("dataset.drop_remainder=true", "changes nothing"),
        ("dataset.num_parallel_workers=4", "stops the run"),
    ],
)
def test_mends_that_are_none(mend: str, why: str) -> None:
    ill = Diagnosis(cause="some", cost=0.1, what="", evidence="", threshold="", mend=mend)
    with pytest.raises(AssertionError, match=why):
        check_mend(ill, (*_TINY, "schedule.warmup_steps=20"))
