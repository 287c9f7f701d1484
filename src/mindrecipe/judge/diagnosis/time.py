"""Where the time of the steps went that it should not have gone to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.measured import NOISY, use_of_others
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.curves import percentile
from mindrecipe.measure.record import StepRecord

DATA_BOUND, SAVING, HOST, DRIFT = 0.10, 0.05, 0.05, 0.20
_METRICS = "metrics.jsonl"
_QUIET = "a quiet machine; `mindrecipe bench` compares two recipes on a noisy one"
_Read = Callable[[StepRecord], float]


@cause
def data_bound(run: Recorded) -> Iterator[Diagnosis]:
    """The devices wait for batches."""
    share = _share(run, lambda record: record.data_time)
    if share is None or share <= DATA_BOUND:
        return
    data = run.config.get("dataset", {})
    machine, prefetch = run.lock.get("machine") or {}, int(data.get("prefetch_size") or 1)
    workers = int(data.get("num_parallel_workers") or 1)
    more = min(2 * workers, int(machine.get("cpu_count") or machine.get("cores") or workers))  # MindSpore refuses more than its cores
    slow = data.get("source") == "native" or words.value(run, "native.train_dataset.data_loader") is not None
    yield Diagnosis(
        cause="data_bound",
        cost=share,
        what=f"{100 * share:.0f} % of the time is waiting for the next batch",
        evidence=f"{_METRICS}: data_time is {1e3 * _mean(run, lambda record: record.data_time):.1f} ms of "
        f"{1e3 * _mean(run, lambda record: record.step_time):.1f} ms a step",
        threshold=f"{100 * DATA_BOUND:.0f} %",
        mend=words.mend(
            f"{f'dataset.num_parallel_workers={more} ' if more > workers else ''}dataset.prefetch_size={2 * prefetch}",
            "build the rows once into MindRecords, which are read fastest, in the place of a loader of your own" if slow else None,
        ),
    )


@cause
def checkpoint_stalls(run: Recorded) -> Iterator[Diagnosis]:
    """Training waits while checkpoints are written."""
    share = _share(run, lambda record: record.checkpoint_time)
    if share is None or share <= SAVING:
        return
    saved = [record.checkpoint_time for record in run.timed if record.checkpoint_time > 0.01]
    every, minutes = words.value(run, "checkpoint.save_steps"), words.value(run, "checkpoint.save_minutes")
    seldom = f"checkpoint.save_steps={4 * int(every)}" if every else f"checkpoint.save_minutes={4 * minutes:g}" if minutes else None
    yield Diagnosis(
        cause="checkpoint_stalls",
        cost=share,
        what=f"{100 * share:.0f} % of the time is writing checkpoints",
        evidence=f"{_METRICS}: {len(saved)} checkpoints, {statistics.fmean(saved):.2f} s each" if saved else _METRICS,
        threshold=f"{100 * SAVING:.0f} %",
        mend=words.mend(words.change(run, checkpoint__async_save=True), seldom, "a faster disk: mindrecipe doctor tells its speed"),
    )


@cause
def host_bottleneck(run: Recorded) -> Iterator[Diagnosis]:
    """Callbacks other than saving: printing, monitors, a user's own."""
    share = _share(run, lambda record: record.other_time - record.checkpoint_time)
    if share is None or share <= HOST or _mean(run, lambda record: record.other_time - record.checkpoint_time) < 0.005:
        return
    yield Diagnosis(
        cause="host_bottleneck",
        cost=share,
        what=f"{100 * share:.0f} % of the time is callbacks between the steps",
        evidence=f"{_METRICS}: other_time is {1e3 * _mean(run, lambda record: record.other_time):.1f} ms a step",
        threshold=f"{100 * HOST:.0f} %, and 5 ms a step",
        mend=words.mend(
            words.change(run, monitor__update_ratio_steps=None, monitor__grad_groups=False, monitor__tensorboard=False),
            "callbacks of your own (native.callbacks) less often",
        ),
    )


@cause
def recompilation(run: Recorded) -> Iterator[Diagnosis]:
    """Single steps that compute for long, and use the CPU meanwhile: a graph is compiled, for a shape that was not there before."""
    steps = run.timed
    if len(steps) < LEAST_STEPS:
        return
    usual, usual_cpu = _median(steps, "compute_time"), _median(steps, "cpu_time")
    late = [
        record
        for record in steps
        if record.compute_time > max(5 * usual, usual + 0.8) and (record.cpu_time or 0.0) > max(3 * usual_cpu, usual_cpu + 0.5)
    ]
    lost = sum(record.compute_time - usual for record in late)
    if not late or lost < 0.02 * sum(record.step_time for record in steps):
        return
    yield Diagnosis(
        cause="recompilation",
        cost=lost / sum(record.step_time for record in steps),
        what=f"{len(late)} steps compiled their graph again: {lost:.1f} s",
        evidence=f"{_METRICS}: steps {_numbers(late)} computed {max(record.compute_time for record in late):.1f} s, where "
        f"{usual:.2f} s are usual",
        threshold="five times the median, with CPU time to match",
        mend=words.mend(words.change(run, dataset__drop_remainder=True), "rows of one length, as text is cut into"),
    )


@cause
def stalls(run: Recorded) -> Iterator[Diagnosis]:
    """Single steps in which nothing was computed for long: a disk, a network, a machine that was held."""
    steps = run.timed
    if len(steps) < LEAST_STEPS:
        return
    usual = _median(steps, "step_time")
    late = [
        record
        for record in steps
        if record.step_time - record.checkpoint_time > max(20 * usual, 5.0) and (record.cpu_time or 0.0) < 0.2 * record.step_time
    ]
    lost, whole = sum(record.step_time - usual for record in late), sum(record.step_time for record in steps)
    if lost > 0.05 * whole:
        yield Diagnosis(
            cause="stalls",
            cost=lost / whole,
            what=f"{len(late)} steps stood still, {lost:.0f} s in all",
            evidence=f"{_METRICS}: steps {_numbers(late)}",
            threshold="twenty times the median, and 5 s",
            mend="look at the disk and the network at that time (logs/rank_0.usage.jsonl), and at the host's other work",
        )


@cause
def noisy_machine(run: Recorded) -> Iterator[Diagnosis]:
    """Other processes take the cores of a CPU run."""
    others = _neighbour(run)
    if others is None:
        return
    yield Diagnosis(
        cause="noisy_machine",
        cost=others,
        what=f"other processes use {100 * others:.0f} % of the cores that the run may use",
        evidence="logs/rank_0.usage.jsonl: host_cpu less cpu, while it trained",
        threshold=f"{100 * NOISY:.0f} %",
        mend=_QUIET,
    )


@cause
def drift(run: Recorded) -> Iterator[Diagnosis]:
    """The same work takes longer as the run goes on: heat, or neighbours that came."""
    steps = run.timed
    third = len(steps) // 3
    if third < LEAST_STEPS:
        return
    early, late = _median(steps[:third], "step_time"), _median(steps[-third:], "step_time")
    work, work_late = _median(steps[:third], "cpu_time"), _median(steps[-third:], "cpu_time")
    slower = late / early - 1
    if slower <= DRIFT or (work and work_late / work - 1 > slower / 2):
        return
    neighbour = _neighbour(run)
    told = "" if neighbour is None else f": other processes use {100 * neighbour:.0f} % of the cores"
    yield Diagnosis(
        cause="drift",
        cost=min(1.0, slower / (1 + slower)),
        what=f"steps became {100 * slower:.0f} % slower, though they do not work more{told}",
        evidence=f"{_METRICS}: median step {1e3 * early:.0f} ms in the first third, {1e3 * late:.0f} ms in the last",
        threshold=f"{100 * DRIFT:.0f} %",
        mend="look at the device's temperature and clock (npu-smi info), and at the host's other work" if neighbour is None else _QUIET,
    )


def _neighbour(run: Recorded) -> float | None:
    """Share of the cores of a CPU run that others took, where that is enough to matter."""
    others = use_of_others(run) if run.derived.get("device_target") == "CPU" else None
    return others if others is not None and others > NOISY else None


def _share(run: Recorded, read: _Read) -> float | None:
    steps = run.timed
    whole = sum(record.step_time for record in steps)
    return sum(map(read, steps)) / whole if len(steps) >= LEAST_STEPS and whole else None


def _mean(run: Recorded, read: _Read) -> float:
    return statistics.fmean(map(read, run.timed))


def _median(steps: list[StepRecord], name: str) -> float:
    return percentile([getattr(record, name) or 0.0 for record in steps], 0.5) or 0.0


def _numbers(steps: list[StepRecord], most: int = 6) -> str:
    told = [str(record.step) for record in steps[:most]]
    return ", ".join(told) + (", ..." if len(steps) > most else "")
