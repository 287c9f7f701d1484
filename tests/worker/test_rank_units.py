"""The worker's small parts that need no mindspore: places, environment, failures, journal, verdict, resume, outputs."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frozen import freeze, native
from processes import run_python

from mindrecipe.checkpoints import manifest
from mindrecipe.errors import UserError
from mindrecipe.measure.history import forget_evaluation, keep_steps
from mindrecipe.measure.record import StepRecord, to_line
from mindrecipe.worker import environment, load
from mindrecipe.worker.environment import Place
from mindrecipe.worker.failure import Diverged, headline
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.outputs import StepOutputs
from mindrecipe.worker.rundir import RunDir
from mindrecipe.worker.verdict import Verdict


def test_importing_the_worker_imports_neither_framework(tmp_path: Path) -> None:
    heavy = ("mindspore", "mindformers", "hydra", "omegaconf", "numpy")
    code = f"import sys, mindrecipe.worker.rank; print([name for name in {heavy} if name in sys.modules])"
    assert run_python("-c", code, cwd=tmp_path).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, Place(rank=0, world=1, scheduler=False)),
        ({"RANK_ID": "3", "MS_WORKER_NUM": "8", "MS_ROLE": "MS_WORKER"}, Place(rank=3, world=8, scheduler=False)),
        ({"MS_NODE_ID": "1", "MS_WORKER_NUM": "2"}, Place(rank=1, world=2, scheduler=False)),
        ({"RANK_ID": "0", "MS_WORKER_NUM": "2", "MS_ROLE": "MS_SCHED"}, Place(rank=0, world=2, scheduler=True)),
    ],
)
def test_place(variables: dict[str, str], place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK_ID", "MS_NODE_ID", "MS_WORKER_NUM", "RANK_SIZE", "MS_ROLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Place.from_environment() == place


def test_prepare_keeps_the_users_folder_importable_and_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir.read(freeze(tmp_path / "run", native("llama", tmp_path / "run", tmp_path), tmp_path, threads=3))
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.chdir(user)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    for name in ("LOCAL_DEFAULT_PATH", "LOG_MF_PATH", "OMP_NUM_THREADS", "GLOG_v", "PWD"):
        monkeypatch.setenv(name, "before")
    environment.prepare(run, Place(rank=2, world=4, scheduler=False))
    assert Path.cwd() == run.path / "scratch" / "rank_2"
    assert sys.path[-1] == str(user) and "" not in sys.path, "a ./tokenizers.py must not stand in for the library"
    assert os.environ["LOCAL_DEFAULT_PATH"] == str(run.path)
    assert os.environ["LOG_MF_PATH"].startswith(str(run.path))
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert list(user.iterdir()) == []


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mindformers\.yaml missing"):
        RunDir.read(tmp_path)


def test_user_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts_of_mine.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=r"parts_of_mine.*not_there_at_all"):
        load.user_modules(["json", "parts_of_mine"])


COMPILE_ERROR = """
----------------------------------------------------
- Kernel select failed:
----------------------------------------------------
Unsupported op [RmsNorm] on CPU, Please confirm whether the device target setting is correct
node: @kernel_graph0:CNode_7
----------------------------------------------------
- C++ Call Stack: (For framework developers)
"""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (COMPILE_ERROR, "Unsupported op [RmsNorm] on CPU, Please confirm whether the device target setting is correct"),
        (
            "For 'BatchMatMul', inputs shape cannot be broadcast on CPU/GPU\n\n----\n- The Traceback",
            "For 'BatchMatMul', inputs shape cannot be broadcast on CPU/GPU",
        ),
        ("", "RuntimeError"),
        ("x" * 900, "x" * 500),
    ],
)
def test_headline(message: str, line: str) -> None:
    assert headline(RuntimeError(message)) == line


def test_journal_writes_whole_lines_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "e.jsonl", None, 1)
    journal.phase("start", world=2)
    try:
        raise Diverged("the loss is nan at step 7", step=7, loss=math.nan)
    except Diverged as error:
        journal.failed(error)
    start, failed = map(json.loads, (tmp_path / "e.jsonl").read_text().splitlines())  # nothing was closed: it had been flushed
    assert (start["phase"], start["rank"], start["detail"]) == ("start", 1, {"world": 2})
    detail = failed["detail"]
    assert (detail["type"], detail["message"], detail["step"]) == ("Diverged", "the loss is nan at step 7", 7)
    assert "Traceback" in detail["traceback"]


def test_a_users_fault_keeps_its_place_and_its_mend(tmp_path: Path) -> None:
    Journal(tmp_path / "e.jsonl", None, 0).failed(UserError("what", where="there", mend="this"))
    message = json.loads((tmp_path / "e.jsonl").read_text())["detail"]["message"]
    assert message.splitlines() == ["what", "  at:   there", "  mend: this"]


def test_null_threads_are_those_of_openmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir.read(freeze(tmp_path / "run", native("llama", tmp_path / "run", tmp_path), tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert environment.threads_per_worker(run) == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert environment.threads_per_worker(run) is None


def _judge(verdict: Verdict, steps: list[tuple[float, bool, float]]) -> None:
    for number, (loss, overflow, scale) in enumerate(steps, 1):
        verdict.judge(number, loss, overflow=overflow, loss_scale=scale)


def test_overflow_under_a_falling_scale_is_ordinary_life() -> None:
    falling = [(5.0, True, 2.0**power) for power in range(30, 0, -1)]
    _judge(Verdict(dynamic=True), [*falling, (5.0, False, 1.0), *falling])


def test_a_loss_that_is_not_a_number_ends_the_run() -> None:
    with pytest.raises(Diverged, match="nan at step 3") as ended:
        _judge(Verdict(dynamic=False), [(5.0, False, 1.0), (4.0, False, 1.0), (math.nan, True, 1.0)])
    assert ended.value.facts["step"] == 3


def test_a_dynamic_scale_gets_a_few_tries() -> None:
    bad = [(math.inf, True, 2.0**power) for power in range(16, 0, -1)]
    _judge(Verdict(dynamic=True), [*bad[:3], (5.0, False, 1.0), *bad[:3]])
    with pytest.raises(Diverged, match="inf at step 1"):
        _judge(Verdict(dynamic=True), bad)
    with pytest.raises(Diverged):  # the update was made: nothing to wait for
        _judge(Verdict(dynamic=True), [(math.inf, False, 1.0)])


def test_updates_that_are_all_skipped_end_the_run() -> None:
    with pytest.raises(Diverged, match="no update since step 1") as ended:
        _judge(Verdict(dynamic=True), [(5.0, True, 1.0)] * 10)
    assert ended.value.facts["step"] == 1
    _judge(Verdict(dynamic=True), [*[(5.0, True, 1.0)] * 8, (5.0, False, 1.0)] * 3)


def test_steps_in_a_row_that_are_borne_are_not_decided_yet() -> None:
    verdict = Verdict(dynamic=True)
    seen = []
    for number, overflow in enumerate([False, True, True, False, True], 1):
        verdict.judge(number, 5.0, overflow=overflow, loss_scale=1.0)
        seen.append(verdict.undecided)
    assert seen == [None, 2, 2, None, 5]


def _record(step: int) -> str:
    floats = ("loss", "lr", "step_time", "data_time", "compute_time", "other_time", "tokens_per_s", "tflops_per_device")
    rest: dict[str, Any] = {"grad_norm": None, "loss_scale": None, "mfu": None, "memory_bytes": None}
    return to_line(StepRecord(step=step, epoch=1, overflow=False, **dict.fromkeys(floats, 1.0), **rest))


def test_a_resumed_run_records_each_step_once(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    assert keep_steps(metrics, 3) == []
    metrics.write_text("".join(map(_record, range(1, 6))) + '{"step": 6, "lo')
    assert [record.step for record in keep_steps(metrics, 3)] == [1, 2, 3]
    assert len((tmp_path / "metrics.1.jsonl").read_text().splitlines()) == 6
    assert metrics.read_text() == "".join(map(_record, range(1, 4)))
    before = metrics.stat().st_ino
    assert len(keep_steps(metrics, 3)) == 3
    assert metrics.stat().st_ino == before


def test_an_earlier_evaluation_is_forgotten(tmp_path: Path) -> None:
    forget_evaluation(tmp_path / "never made")
    (tmp_path / "heldout").mkdir()
    for rank in (0, 7):
        (tmp_path / "heldout" / f"rank_{rank}.json").write_text("{}")
    forget_evaluation(tmp_path)
    assert list((tmp_path / "heldout").iterdir()) == []


class _Tensor:
    def __init__(self, value: Any) -> None:
        self.value = np.array(value)

    def asnumpy(self) -> Any:
        return self.value


def test_outputs() -> None:
    full = (_Tensor([3.0]), _Tensor(True), _Tensor(2.0), _Tensor(0.1), _Tensor([0.5]))
    *told, squares = StepOutputs.of((*full, _Tensor([4.0, 9.0]), "sizes"))
    assert told == [3.0, True, 2.0, 0.1, 0.5] and list(squares) == [4.0, 9.0]
    assert StepOutputs.of((*full, "something of a user's own cell")) == (3.0, True, 2.0, 0.1, 0.5, None)
    assert StepOutputs.of((_Tensor([1.0, 3.0]), _Tensor(False), _Tensor(1.0), 0.1, None)) == (2.0, False, 1.0, 0.1, None, None)
    assert StepOutputs.of(_Tensor(4.0)) == (4.0, False, None, None, None, None)


@pytest.mark.parametrize(("rank", "file"), [(1, None), (2, "a_rank_0-1_6.ckpt"), (3, "a_rank_1-1_6.ckpt")])
def test_a_rank_without_a_file_takes_anothers(tmp_path: Path, rank: int, file: str | None) -> None:
    """mindformers looks for rank_<own number>/<the name with it>: a link to what one of the two ranks has saved."""
    saved = tmp_path / "old"
    for number in (0, 1):
        (saved / f"rank_{number}").mkdir(parents=True)
        (saved / f"rank_{number}/a_rank_{number}-1_6.ckpt").write_text(str(number))
    given = SimpleNamespace(load_checkpoint=str(saved), resume_training="a_rank_0-1_6.ckpt")
    run = RunDir(path=tmp_path / "run", config={}, derived={})
    for _ in range(2):  # an earlier attempt's link is no obstacle
        given.load_checkpoint = str(saved)
        load._share_replicas(given, run, Place(rank=rank, world=4, scheduler=False))
    if file is None:
        assert given.load_checkpoint == str(saved)
    else:
        link = Path(given.load_checkpoint) / f"rank_{rank}/a_rank_{rank}-1_6.ckpt"
        assert link.resolve().name == file and link.read_text() == str(rank % 2)


def test_a_rank_that_is_started_by_hand_overwrites_no_checkpoints(tmp_path: Path) -> None:
    """The launcher's, which name it, go on from where it says."""
    run = freeze(tmp_path / "run", native("llama", tmp_path / "run", tmp_path), tmp_path)
    manifest.begin(run / "checkpoint")
    manifest.write(run / "checkpoint", manifest.Manifest(step=12, rank=1, world=2, files={}))
    done = run_python("-m", "mindrecipe.worker", run, cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stdout
    assert f"{run} has trained: it has checkpoints up to step 12, and starts after step 0" in done.stdout and "mend: " in done.stdout
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint", "config.yaml", "lock.json", "mindformers.yaml"]
    lock = json.loads((run / "lock.json").read_text())
    lock["derived"]["resume"] = {"step": 12}
    (run / "lock.json").write_text(json.dumps(lock))
    RunDir.read(run).require_room()
