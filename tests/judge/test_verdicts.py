"""What a verdict must not overlook: runs that did not complete, figures that can't be compared, losses without meaning, other data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import TOKENS, make, steps, usage

from mindrecipe.judge import baseline, thresholds
from mindrecipe.judge.bootstrap import Difference
from mindrecipe.judge.compare import Comparison, compare
from mindrecipe.judge.experiments import ladder
from mindrecipe.judge.measured import LAST, MOST_LOSSES, Measured, measure
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.report.sheet import sheet
from mindrecipe.judge.rounds import together
from mindrecipe.judge.verdicts import decide
from mindrecipe.launch.claim import Claim
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import Event, RankStep, StepRecord

DEFAULT = thresholds.parse(())
TRAIN = [Event(phase="train", rank=0, pid=1, time=10.0, detail={}), Event(phase="done", rank=0, pid=1, time=90.0, detail={})]
QUIET = [usage(float(second)) for second in range(15, 90, 5)]
FAILED = Outcome(state="failed", exit_code=1)


def run_of(folder: Path, records: list[StepRecord], **more: Any) -> Recorded:
    path = folder / f"run{len(list(folder.iterdir()))}"
    return Recorded(make(path, records, **{"events": TRAIN, "samples": QUIET} | more))


def told(comparison: Comparison) -> dict[str, str]:
    return {metric.name: metric.verdict for metric in comparison.metrics}


@pytest.mark.parametrize(
    ("a", "b", "verdict"), [("done", "failed", "worse"), ("failed", "done", "better"), ("failed", "failed", "not comparable")]
)
def test_a_side_that_did_not_complete_is_the_worse_one(tmp_path: Path, a: str, b: str, verdict: str) -> None:
    """With evaluate=off nothing else differs: it died a few steps before its end."""
    sides = [
        measure(run_of(tmp_path, steps(400 if how == "done" else 395, seed=1), **({} if how == "done" else {"outcome": FAILED})))
        for how in (a, b)
    ]
    for only in ((), ("memory",)):
        found = compare(*sides, DEFAULT, only=only)
        assert found.verdict == verdict and found.metrics[0].name == "completed"
        assert "failed (after step 395)" in found.metrics[0].note
    assert verdict != "not comparable" or "A is failed" in found.why_not[0]


def test_a_run_that_trains_still_is_not_judged(tmp_path: Path) -> None:
    a, run = measure(run_of(tmp_path, steps(400, seed=1))), run_of(tmp_path, steps(300, seed=1, slow=2.0))
    (run.path / "summary.json").unlink()
    with Claim(run.path):
        found = compare(a, measure(run), DEFAULT)
    assert found.verdict == "not comparable" and "B is running (after step 300)" in found.why_not[0]
    assert compare(a, measure(run), DEFAULT).verdict == "worse", "killed, and nobody could write how"


def test_too_few_timed_steps_are_unclear_and_never_the_same(tmp_path: Path) -> None:
    a, b = measure(run_of(tmp_path, steps(400, seed=1, cpu_time=0.1))), measure(run_of(tmp_path, steps(21, seed=1, cpu_time=0.1)))
    for sides, which in (((a, b), "B"), ((b, b), "A and B")):
        found = compare(*sides, DEFAULT, only=["throughput"])
        assert (found.verdict, found.exit_code) == ("not comparable", 4) and f"too few timed steps in {which}" in found.why_not[0]
    assert {name for name, verdict in told(compare(b, b, DEFAULT)).items() if verdict == "unclear"} == {
        "throughput",
        "step_p95",
        "cpu_time",
    }


def test_a_metric_that_was_asked_for_and_not_measured_is_said(tmp_path: Path) -> None:
    a = measure(run_of(tmp_path, steps(400, seed=1)))
    found = compare(a, a, DEFAULT, only=["memory", "heldout_loss"])
    assert found.verdict == "not comparable" and found.why_not[0].startswith("heldout_loss: nothing of it was measured")


def test_steps_of_other_sizes_are_compared_by_their_tokens(tmp_path: Path) -> None:
    """Four times the tokens in twice the time."""
    a = measure(run_of(tmp_path, steps(400, seed=1, cpu_time=0.1)))
    b = measure(run_of(tmp_path, steps(400, seed=1, slow=2.0, cpu_time=0.2), derived={"tokens_per_step": 4 * TOKENS}))
    found = compare(a, b, DEFAULT)
    assert {name: told(found)[name] for name in ("throughput", "step_p95", "cpu_time")} == dict.fromkeys(
        ("throughput", "step_p95", "cpu_time"), "better"
    )
    metrics = {metric.name: metric for metric in found.metrics}
    assert metrics["cpu_time"].b == pytest.approx(0.05) and metrics["cpu_time"].difference == pytest.approx(-0.5)
    assert any(f"a step has {TOKENS} tokens in A, {4 * TOKENS} in B" in note for note in found.notes)


def test_the_steps_after_each_start_are_no_steps_of_the_runs_speed(tmp_path: Path) -> None:
    """A second attempt compiles in the middle of metrics.jsonl."""
    records = steps(80)
    records[40:42] = [replace(record, step_time=9.0, compute_time=8.9, warm_up=True) for record in records[40:42]]
    ranks = {
        rank: [RankStep(step=r.step, time=0.0, data_time=0.0, compute_time=r.compute_time, other_time=0.0) for r in records]
        for rank in (0, 1)
    }
    run = run_of(tmp_path, records, ranks=ranks)
    left_out = {1, 2, 41, 42}
    assert {record.step for record in run.steps} - {record.step for record in run.timed} == left_out
    for own in run.rank_timed.values():
        assert {record.step for record in records} - {record.step for record in own} == left_out
    assert run.summary["step_time"]["p99"] < 1.0 and max(measure(run).step_times) < 1.0


def test_one_loss_that_is_no_number_on_both_sides_is_no_difference(tmp_path: Path) -> None:
    records = [replace(record, loss=math.nan if record.step in (200, 395) else record.loss) for record in steps(400, seed=1)]
    run = run_of(tmp_path, records)
    a = measure(run)
    assert math.isnan(a.final_loss or 0.0)
    for kept in (a, Measured.from_dict(json.loads(json.dumps(a.as_dict(), allow_nan=False)))):
        found = compare(a, kept, DEFAULT)
        assert found.verdict == "same", told(found)
    other = measure(run_of(tmp_path, [replace(record, loss=record.loss * (1.2 if record.step > 390 else 1)) for record in records]))
    assert {name for name, verdict in told(compare(a, other, DEFAULT)).items() if verdict == "worse"} == {
        "loss_correlation", "loss_pointwise", "final_loss"}  # fmt: skip
    torn = measure(run_of(tmp_path, [replace(record, loss=math.inf if record.step == 7 else record.loss) for record in records]))
    (line,) = [metric for metric in compare(a, torn, DEFAULT).metrics if metric.name == "loss_pointwise"]
    assert line.verdict == "worse" and "step 7" in line.note
    file = tmp_path / "kept.jsonl"
    baseline.record(run, file, name="one", tolerances={})
    assert math.isnan(baseline.read(file)[0].measured.final_loss or 0.0)
    assert compare(baseline.read(file)[0].measured, other, DEFAULT).verdict == "worse"


def _ends(factor: float, noise: float, seed: int) -> list[StepRecord]:
    draw = np.random.default_rng(seed)
    return [replace(record, loss=4.0 * factor * float(np.exp(draw.normal(scale=noise)))) for record in steps(100, seed=1)]


def test_the_final_loss_has_the_noise_of_its_batches(tmp_path: Path) -> None:
    """Seed for seed both see the same batches, and a difference is one; other batches may well end 2 % apart."""
    a = measure(run_of(tmp_path, _ends(1.0, 0.05, 1)))
    same_batches, other_batches = measure(run_of(tmp_path, _ends(0.97, 0.05, 1))), measure(run_of(tmp_path, _ends(0.98, 0.05, 2)))
    assert told(compare(a, same_batches, DEFAULT))["final_loss"] == "better"
    found = compare(a, replace(other_batches, identity=replace(other_batches.identity, seed=7)), DEFAULT)
    (line,) = [metric for metric in found.metrics if metric.name == "final_loss"]
    assert line.verdict == "unclear" and line.low is not None and line.high is not None and line.low < 0 < line.high


def test_a_ladder_keeps_nothing_for_a_lower_loss_of_one_round(tmp_path: Path) -> None:
    a = measure(run_of(tmp_path, _ends(1.0, 0.05, 1)))
    b = measure(run_of(tmp_path, _ends(0.97, 0.05, 1)))

    def helps(rounds: int) -> bool:
        compared = [compare(a, b, DEFAULT, only=ladder.JUDGED, paired=True)] * rounds
        return ladder.helps(together(compared, DEFAULT), rounds)

    assert not helps(1) and helps(3)


def test_memory_that_a_round_has_not_measured_is_unclear(tmp_path: Path) -> None:
    a = measure(run_of(tmp_path, steps(400, seed=1)))
    found = together([compare(a, b, DEFAULT, paired=True) for b in (a, replace(a, peak_memory_bytes=None), a)], DEFAULT)
    assert told(found)["memory"] == "unclear" and found.verdict == "not comparable"


def test_a_difference_beyond_the_tolerance_is_never_the_same() -> None:
    """The interval reaches beyond zero on one side, and is narrow on the other."""
    verdict, note = decide(Difference(0.03, -0.002, 0.035), 0.025, more_is_better=True, more="more steps")
    assert verdict == "unclear" and "+3.0 % that may be none" in note
    assert decide(Difference(0.02, -0.002, 0.025), 0.025, more_is_better=True, more="")[0] == "same"


def test_a_report_says_what_differs_instead_of_judging(tmp_path: Path) -> None:
    first = run_of(tmp_path, steps(400, seed=1))
    (found,) = sheet([first, run_of(tmp_path, steps(400, seed=1, slow=2.0), lock={"dataset_hash": "other"})]).comparisons
    assert found.verdict == "not comparable" and "the data sets differ: abc in A and other in B" in found.why_not and found.metrics
    assert "loss_pointwise" not in told(found), "losses of other batches say nothing step by step"
    (found,) = sheet([first, run_of(tmp_path, steps(400, seed=1, slow=2.0))]).comparisons
    assert found.verdict == "worse"


def test_data_that_is_not_known_is_not_silently_the_same(tmp_path: Path) -> None:
    a = measure(run_of(tmp_path, steps(400, seed=1), lock={"dataset_hash": None}))
    assert any("whether it is the same is not known" in note for note in compare(a, a, DEFAULT).notes)


def test_what_was_compared_in_spite_of_a_difference_says_so(tmp_path: Path) -> None:
    a, b = (measure(run_of(tmp_path, steps(400, seed=1), lock={"dataset_hash": name})) for name in ("abc", "other"))
    assert "the data sets differ: abc in A and other in B" in compare(a, b, DEFAULT, despite=["data"]).notes


def test_losses_of_evaluations_are_of_the_same_step_or_the_last(tmp_path: Path) -> None:
    first = {"data": "abc", "tokens": 100, "batch_size": 8, "loss": 3.0, "latency": {"p50": 0.1}, "tokens_per_s": 1e4, "memory_bytes": 2**30,
             "others": 0.0}  # fmt: skip
    a, b = (measure(run_of(tmp_path, steps(count, seed=1))) for count in (400, 200))

    def verdict(left: int, right: int) -> str:
        sides = [replace(side, evaluation=first | {"step": step}) for side, step in ((a, left), (b, right))]
        return told(compare(*sides, DEFAULT))["evaluation_loss"]

    assert (verdict(100, 100), verdict(400, 200), verdict(400, 100), verdict(300, 200)) == ("same", "same", "unclear", "unclear")


def test_tolerances_of_both_sides(here: Path, mindrecipe: Callable[..., Any]) -> None:
    for name, change in (("aaa", 1.0), ("bbb", 1.1)):
        make(here / "runs/tiny" / name, steps(400, seed=1, memory_bytes=int(change * 2**30)), events=TRAIN, samples=QUIET)
    assert mindrecipe("baseline", "record", "bbb", "--name", "wide", "--threshold", "memory=0.2").code == 0
    assert mindrecipe("baseline", "record", "aaa", "--name", "narrow", "--threshold", "memory=0.03").code == 0
    assert mindrecipe("baseline", "record", "aaa", "--name", "plain").code == 0
    assert mindrecipe("compare", "aaa", "bbb", "--metric", "memory").code == 1
    of_b = mindrecipe("compare", "aaa", "wide", "--metric", "memory")
    assert of_b.code == 0 and "tolerances are those declared with B" in of_b.out
    both = mindrecipe("compare", "narrow", "wide", "--metric", "memory")
    assert both.code == 1 and "the stricter count (memory=0.03)" in both.out
    one = mindrecipe("compare", "plain", "wide", "--metric", "memory")
    assert one.code == 0 and "tolerances are those declared with B" in one.out, "a default is not declared"
    listed = json.loads(mindrecipe("baseline", "ls", "--json").out)
    assert [(row["name"], row["memory_bytes"]) for row in listed] == [("wide", int(1.1 * 2**30)), ("narrow", 2**30), ("plain", 2**30)]


def test_the_last_losses_are_kept_of_a_long_run(tmp_path: Path) -> None:
    count = MOST_LOSSES + 7
    records = [replace(steps(1)[0], step=number, loss=float(number)) for number in range(1, count + 1)]
    kept = measure(run_of(tmp_path, records)).losses
    assert sorted(kept)[-LAST:] == list(range(count - LAST + 1, count + 1)) and len(kept) < 0.6 * count
