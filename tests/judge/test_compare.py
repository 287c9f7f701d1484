"""The gate: what is the same is called the same, what got worse is caught, what can't be compared is refused."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import make, steps, usage

from mindrecipe.errors import UserError
from mindrecipe.judge import baseline, bootstrap, thresholds
from mindrecipe.judge.compare import Comparison, compare
from mindrecipe.judge.measured import Measured, in_blocks, measure, use_of_others
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.rounds import interval, together
from mindrecipe.judge.verdicts import overall
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import Event, StepRecord

TRAIN = [Event(phase="train", rank=0, pid=1, time=10.0, detail={}), Event(phase="done", rank=0, pid=1, time=90.0, detail={})]
QUIET = [usage(float(second)) for second in range(15, 90, 5)]


def run_of(folder: Path, records: list[StepRecord], **more: Any) -> Recorded:
    path = folder / f"run{len(list(folder.iterdir()))}"
    return Recorded(make(path, records, **{"events": TRAIN, "samples": QUIET} | more))


def judged(folder: Path, left: list[StepRecord], right: list[StepRecord], *words: str, **more: Any) -> Comparison:
    sides = [measure(run_of(folder, records)) for records in (left, right)]
    return compare(*sides, thresholds.parse(words), **more)


def told(comparison: Comparison) -> dict[str, str]:
    return {metric.name: metric.verdict for metric in comparison.metrics}


def test_two_identical_runs_are_the_same(tmp_path: Path) -> None:
    found = judged(tmp_path, steps(400, seed=1, cpu_time=0.3), steps(400, seed=2, cpu_time=0.3))
    assert (found.verdict, found.exit_code) == ("same", 0)
    unmeasured = {"heldout_loss", *(name for name in thresholds.THRESHOLDS if name.startswith("evaluation"))}
    assert set(told(found)) == set(thresholds.THRESHOLDS) - unmeasured and set(told(found).values()) == {"same"}


@pytest.mark.parametrize(
    ("change", "metric", "verdict"),
    [
        ({"slow": 1.25}, "throughput", "worse"),
        ({"slow": 0.8}, "throughput", "better"),
        ({"slow": 1.05}, "throughput", "unclear"),
        ({"memory_bytes": int(1.1 * 2**30)}, "memory", "worse"),
        ({"memory_bytes": int(0.9 * 2**30)}, "memory", "better"),
        ({"cpu_time": 0.36}, "cpu_time", "worse"),
        ({"cpu_time": 0.32}, "cpu_time", "unclear"),
    ],
)
def test_what_changed_is_caught_both_ways(tmp_path: Path, change: dict[str, Any], metric: str, verdict: str) -> None:
    found = judged(tmp_path, steps(400, seed=1, cpu_time=0.3), steps(400, seed=2, **{"cpu_time": 0.3} | change))
    assert told(found)[metric] == verdict and found.verdict == ("not comparable" if verdict == "unclear" else verdict)
    assert "one process on each side" in found.notes[-1], "what a single run can't show is said with every verdict"


def test_devices_have_no_process_of_their_own_to_differ_by(tmp_path: Path) -> None:
    a, b = (measure(run_of(tmp_path, steps(400, seed=2, slow=slow), derived={"device": "ascend_910b"})) for slow in (1.0, 1.05))
    found = compare(a, b, thresholds.parse(()))
    assert told(found)["throughput"] == "worse" and not any("one process" in note for note in found.notes)


def test_a_loss_that_differs_seed_for_seed_is_worse_whichever_way(tmp_path: Path) -> None:
    left = steps(400, seed=1)
    for factor in (1.01, 0.99):
        right = [replace(record, loss=record.loss * (factor if record.step > 200 else 1)) for record in steps(400, seed=2)]
        found = judged(tmp_path, left, right)
        assert found.verdict == "worse"
        (line,) = [metric for metric in found.metrics if metric.name == "loss_pointwise"]
        assert "first beyond at step 201" in line.note and line.b == pytest.approx(0.01)
        assert judged(tmp_path, left, right, "loss_pointwise=0.02", "final_loss=0.02").verdict == "same"


def test_a_run_that_diverged_is_worse(tmp_path: Path) -> None:
    broken = [replace(record, loss=math.nan if record.step > 100 else record.loss) for record in steps(120, seed=2)]
    found = judged(tmp_path, steps(400, seed=1), broken)
    assert found.verdict == "worse" and told(found)["final_loss"] == "worse"
    json.dumps(found.as_dict())


def test_other_seeds_have_other_curves(tmp_path: Path) -> None:
    a = measure(run_of(tmp_path, steps(400, seed=1)))
    b = measure(run_of(tmp_path, [replace(record, loss=record.loss + 0.01) for record in steps(400)], derived={"seed": 43}))
    assert "loss_pointwise" not in told(compare(a, b, thresholds.parse(())))


NEARBY = [replace(record, loss=record.loss + 0.02 * math.sin(record.step)) for record in steps(400, seed=2)]


@pytest.mark.parametrize(
    ("other", "told_as"),
    [
        ({"derived": {"data_seed": 2}}, "dataset seed 1 in A, 2 in B"),
        ({"config": {"dataset": {"shuffle": False}}}, "dataset shuffle True in A, False in B"),
        ({"config": {"dataset": {"shuffle": True, "num_shards": 2, "shard_id": 1}}}, "dataset shard [None, None] in A, [1, 2] in B"),
        ({"config": {"native": {"train_dataset": {"seed": 7}}}}, "dataset seed 1 in A, 7 in B"),
        ({"config": {"native": {"train_dataset": {"data_loader": {"shuffle": False}}}}}, "dataset shuffle True in A, False in B"),
        ({"config": {"native": {"train_dataset": {"data_loader": {"type": "Mine"}}}}}, "dataset loader {} in A, {'type': 'Mine'} in B"),
    ],
)
def test_other_batches_of_the_same_data_have_other_curves(tmp_path: Path, other: dict[str, Any], told_as: str) -> None:
    """Of the same run.seed and data: each loss differs by what its batch differs, which is no regression."""
    base: dict[str, Any] = {"derived": {"data_seed": 1}, "config": {"dataset": {"shuffle": True}}}
    a = measure(run_of(tmp_path, steps(400, seed=1), **base))
    b = measure(run_of(tmp_path, NEARBY, **(base | other | {"derived": base["derived"] | other.get("derived", {})})))
    found = compare(a, b, thresholds.parse(()))
    assert "loss_pointwise" not in told(found) and told(found)["final_loss"] == "same" and found.verdict != "worse"
    assert any(told_as in note for note in found.notes)
    alike = compare(a, measure(run_of(tmp_path, NEARBY, **base)), thresholds.parse(()))
    assert told(alike)["loss_pointwise"] == "worse" and not any("batches differ" in note for note in alike.notes)


def test_a_baseline_of_before_says_nothing_of_its_batches(tmp_path: Path) -> None:
    """It is read, and compared step by step as it was."""
    run = run_of(tmp_path, steps(400), derived={"data_seed": 1})
    kept = json.loads(json.dumps(measure(run).as_dict()))
    del kept["identity"]["drawn"]
    old = Measured.from_dict(kept)
    assert told(compare(old, measure(run), thresholds.parse(())))["loss_pointwise"] == "same"
    assert told(compare(measure(run), old, thresholds.parse(())))["loss_pointwise"] == "same"


def test_a_noisy_machine_is_unclear_and_never_the_same(tmp_path: Path) -> None:
    busy = [usage(float(second), cpu=0.8, host_cpu=1.9) for second in range(15, 90, 5)]
    a, b = measure(run_of(tmp_path, steps(400, seed=1))), measure(run_of(tmp_path, steps(400, seed=2), samples=busy))
    assert a.others == pytest.approx(0.05) and b.others == pytest.approx(0.55)
    found = compare(a, b, thresholds.parse(()))
    assert told(found)["throughput"] == "unclear" and (found.verdict, found.exit_code) == ("not comparable", 4)
    assert "mindrecipe bench" in found.why_not[0]
    assert compare(a, b, thresholds.parse(()), only=["final_loss", "memory"]).verdict == "same"
    assert compare(a, replace(b, others=None), thresholds.parse(())).verdict == "not comparable"
    assert told(compare(a, b, thresholds.parse(()), paired=True))["throughput"] == "same"


def test_evaluations_are_compared_where_both_have_one(tmp_path: Path) -> None:
    first = {"data": "abc", "tokens": 100, "batch_size": 8, "loss": 3.0, "latency": {"p50": 0.1}, "tokens_per_s": 1e4, "memory_bytes": 2**30,
             "others": 0.0}  # fmt: skip
    a = replace(measure(run_of(tmp_path, steps(400, seed=1))), evaluation=first)

    def verdicts(**change: Any) -> dict[str, str]:
        found = told(compare(a, replace(a, evaluation=first | change), thresholds.parse(())))
        return {name: verdict for name, verdict in found.items() if name.startswith("evaluation") and verdict != "same"}

    assert verdicts() == {} and verdicts(tokens=50, loss=9.0) == {}
    assert verdicts(loss=3.1, tokens_per_s=8e3) == {"evaluation_loss": "worse", "evaluation_throughput": "worse"}
    assert verdicts(latency={"p50": 0.08}, memory_bytes=2**31) == {"evaluation_latency": "better", "evaluation_memory": "worse"}
    assert verdicts(others=0.5) == {"evaluation_latency": "unclear", "evaluation_throughput": "unclear"}


def test_wide_noise_is_unclear(tmp_path: Path) -> None:
    found = judged(tmp_path, steps(60, seed=1, noise=0.5), steps(60, seed=2, noise=0.5))
    assert "unclear" in told(found).values() and found.verdict in ("not comparable", "worse")


def test_other_hardware_or_data_is_refused_unless_told(tmp_path: Path) -> None:
    a = measure(run_of(tmp_path, steps(400, seed=1)))
    other = measure(run_of(tmp_path, steps(400, seed=2), derived={"device": "ascend_910b"}, lock={"dataset_hash": "other"}))
    found = compare(a, other, thresholds.parse(()))
    assert found.verdict == "not comparable" and len(found.why_not) == 2 and found.metrics == []
    assert compare(a, other, thresholds.parse(()), despite=["hardware"]).verdict == "not comparable"
    assert compare(a, other, thresholds.parse(()), despite=["hardware", "data"]).verdict == "same"


def test_the_whole_is_as_good_as_its_worst_part() -> None:
    assert overall(["same", "better"]) == "better" and overall(["better", "worse", "unclear"]) == "worse"
    assert overall(["same", "unclear"]) == overall([]) == "not comparable"


@given(st.integers(0, 10_000), st.floats(0.8, 1.25))
def test_paired_turns_cancel_what_strikes_both(seed: int, factor: float) -> None:
    """Drifts of a factor two, that both sides see in the same turn, and 2 % of noise of their own."""
    draw = np.random.default_rng(seed)
    drift = np.exp(draw.normal(scale=0.5, size=(60, 1)))
    a, b = (0.2 * drift * np.exp(draw.normal(scale=0.02, size=(60, 5))) for _ in range(2))
    found = bootstrap.difference(a.tolist(), (b * factor).tolist(), bootstrap.median, paired=True)
    assert found.low <= found.value <= found.high and found.value == pytest.approx(factor - 1, abs=0.02)
    assert found.spread < 0.025  # of the drift it would be a third
    assert found == bootstrap.difference(a.tolist(), (b * factor).tolist(), bootstrap.median, paired=True)


def test_rounds_say_how_much_processes_differ(tmp_path: Path) -> None:
    """Within a round all is certain, and each round says something else: together that is unclear, until there are enough of them."""
    tolerances = thresholds.parse(())

    def rounds(*factors: float) -> Comparison:
        a = measure(run_of(tmp_path, steps(400, seed=1, cpu_time=0.3)))
        sides = [replace(a, blocks=[[took * factor for took in block] for block in a.blocks]) for factor in factors]
        return together([compare(a, b, tolerances, paired=True) for b in sides], tolerances)

    assert told(rounds(1.2))["throughput"] == "worse"
    assert told(rounds(1.06))["throughput"] == "unclear" and "--rounds 8" in rounds(1.06).why_not[0]
    assert told(rounds(1.06, 0.94))["throughput"] == "unclear" and "more --rounds" in rounds(1.06, 0.94).why_not[0]
    assert rounds(1.01, 0.99, 1.0, 1.0, 1.01, 0.99, 1.0, 1.0).verdict == "same"
    assert told(rounds(1.06, 1.04, 1.07, 1.05, 1.05, 1.06))["throughput"] == "worse"
    found = interval([0.05, 0.03, 0.04])
    assert found.low < 0.0 < found.value < 0.05 < found.high, "three rounds are few"


@given(st.lists(st.floats(0.1, 1.0), max_size=90), st.integers(1, 12))
def test_blocks_are_the_last_whole_ones(times: list[float], size: int) -> None:
    blocks = in_blocks(times, size)
    joined = [value for block in blocks for value in block]
    assert all(len(block) == size for block in blocks) and len(blocks) != 1
    assert joined == times[len(times) - len(joined) :] if joined else len(times) < 2 * size


def test_what_others_use_is_counted_while_it_trains_only(tmp_path: Path) -> None:
    samples = [usage(5.0, host_cpu=2.0, cpu=0.1), usage(20.0, cpu=1.5, host_cpu=1.7), usage(95.0, host_cpu=2.0, cpu=0.1)]
    assert use_of_others(run_of(tmp_path, steps(), samples=samples)) == pytest.approx(0.1)
    assert use_of_others(run_of(tmp_path, steps(), samples=[])) is None


def test_what_others_use_is_a_share_of_the_cores_that_were_watched(tmp_path: Path) -> None:
    """The samples say how many; those of before they did are divided by the machine's, and whatever they say, all there is is the most."""
    watched = [usage(20.0, cpu=3.0, host_cpu=4.0, host_cores=8)]
    assert use_of_others(run_of(tmp_path, steps(), samples=watched)) == pytest.approx(1 / 8)
    whole_host = [usage(20.0, cpu=1.9, host_cpu=34.0)]
    assert use_of_others(run_of(tmp_path, steps(), samples=whole_host)) == 1.0


def test_a_baseline_is_what_was_recorded(tmp_path: Path) -> None:
    run, file = run_of(tmp_path, steps(100)), tmp_path / "folder" / "kept.jsonl"
    baseline.record(run, file, name="one", tolerances=thresholds.parse(["memory=0.2"]), note="first")
    baseline.record(run, file, name="two", tolerances={})
    kept = baseline.read(file)
    assert [item.name for item in kept] == ["one", "two"] and kept[0].tolerances["memory"] == 0.2 and kept[0].note == "first"
    assert kept[0].measured == measure(run)
    assert baseline.open_side(f"{file}:one").name == "one" and baseline.open_side(str(file)).name == "two"
    assert baseline.open_side("one", file).name == "one"
    assert isinstance(Measured.from_dict(json.loads(json.dumps(measure(run).as_dict()))), Measured)


def test_a_line_without_an_end_is_not_written_onto(tmp_path: Path) -> None:
    run, file = run_of(tmp_path, steps(400, seed=1)), tmp_path / "baselines.jsonl"
    baseline.record(run, file, name="one", tolerances={})
    file.write_bytes(file.read_bytes().rstrip(b"\n"))  # as some editors save it
    baseline.record(run, file, name="two", tolerances={})
    assert [kept.name for kept in baseline.read(file)] == ["one", "two"] and file.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("kept", [0, 1])
def test_a_full_disk_leaves_no_half_line(kept: int, tmp_path: Path) -> None:
    run, file = run_of(tmp_path, steps(400, seed=1)), tmp_path / "baselines.jsonl"
    for _ in range(kept):
        baseline.record(run, file, name="one", tolerances={})
    before = file.read_bytes() if kept else b""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))  # a write ends there: the next one fails
    try:
        with pytest.raises(UserError, match="can't write"):
            baseline.record(run, file, name="two", tolerances={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.exists() == bool(kept) and (not kept or file.read_bytes() == before)
    baseline.record(run, file, name="two", tolerances={})
    assert len(baseline.read(file)) == kept + 1


def test_a_name_that_is_neither_a_run_nor_a_baseline(here: Path, mindrecipe: Callable[..., Any]) -> None:
    make(here / "runs/tiny/aaa", steps(400, seed=1), events=TRAIN, samples=QUIET)
    done = mindrecipe("compare", "nightyl", "last")
    assert done.code == 2 and "there is no run nightyl" in done.err and "there is no baselines.jsonl" in done.err
    assert "runs/tiny/aaa" not in done.err, "not the very run that is to be judged"
    assert mindrecipe("baseline", "record", "last", "--name", "nightly").code == 0
    done = mindrecipe("compare", "nightyl", "last")
    assert done.code == 2 and "baselines.jsonl has nightly" in done.err and "mend: nightly" in done.err
    assert mindrecipe("compare", "nightly", "aab").err.splitlines()[-1].endswith("mend: aaa")


def test_faults_of_baselines(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    failed = run_of(tmp_path, steps(20), outcome=Outcome(state="failed", exit_code=1))
    with pytest.raises(UserError, match="is failed"):
        baseline.record(failed, file, name=None, tolerances={})
    assert not file.exists()
    file.write_text("hello\n")
    with pytest.raises(UserError, match="1 is no baseline"):
        baseline.record(run_of(tmp_path, steps(20)), file, name=None, tolerances={})
    file.write_text('{"schema": 99}\n')
    with pytest.raises(UserError, match="schema 99"):
        baseline.read(file)
    with pytest.raises(UserError, match="no baseline file"):
        baseline.open_side(str(tmp_path / "other.jsonl"))


@pytest.mark.parametrize("word", ["thruput=0.1", "memory", "memory=lots", "memory=-1", "memory=nan"])
def test_wrong_thresholds(word: str) -> None:
    with pytest.raises(UserError) as fault:
        thresholds.parse([word])
    assert fault.value.mend is not None
    assert thresholds.parse([fault.value.mend.removeprefix("--threshold ")])


def test_the_commands_and_their_exit_codes(here: Path, mindrecipe: Callable[..., Any]) -> None:
    runs = here / "runs" / "tiny"
    for name, change in (("aaa", {}), ("bbb", {}), ("ccc", {"slow": 1.3})):
        make(runs / name, steps(400, seed=len(list(here.rglob("lock.json"))), **change), events=TRAIN, samples=QUIET)
    assert mindrecipe("baseline", "record", "aaa", "--name", "good").code == 0
    assert "good\t2025" in mindrecipe("baseline", "ls").out
    same = mindrecipe("compare", "good", "bbb")
    assert same.code == 0 and "verdict: B is same" in same.out
    worse = mindrecipe("compare", "good", "ccc", "--json")
    assert worse.code == 1 and json.loads(worse.out)["verdict"] == "worse"
    assert mindrecipe("compare", "ccc", "runs/tiny/aaa").code == 3
    assert mindrecipe("compare", "good", "ccc", "--metric", "memory").code == 0
    for words in (("good", "ccc", "--metric", "mem"), ("good", "nobody"), ("good", "aaa", "--despite", "weather"), ("good",)):
        assert mindrecipe("compare", *words).code == 2
    assert mindrecipe("baseline", "ls", "--file", "other.jsonl").code == 2
