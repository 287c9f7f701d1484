"""Real data-parallel training on two ranks through msrun: the same as one process, and what ranks share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frozen import BATCH, SEQ, STEPS, freeze, monitor, native
from processes import HERE, Finished, msrun, run_python

from mindrecipe.checkpoints.find import find
from mindrecipe.freeze import freeze_evaluation
from mindrecipe.lower.place import Resume
from mindrecipe.measure.record import read_rank_steps

pytestmark = pytest.mark.e2e
HALF = STEPS // 2
Work = Callable[..., Finished]


def _parallel(family: str, run: Path, data: Path) -> dict[str, Any]:
    """For two ranks: half of the micro batch each, rows in file order, checkpoints in a layout that data_parallel can resume."""
    config = native(family, run, data)
    config |= {"use_parallel": True}
    config["runner_config"]["batch_size"] = BATCH // 2
    config["train_dataset"]["data_loader"]["shuffle"] = False
    if family == "qwen3":
        del config["checkpoint"]
        config["callbacks"][-1] = monitor(run, "safetensors")
    return config


@pytest.fixture(scope="module")
def pair(data: Path, work: Work, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finished]:
    """A finished run of two ranks, one for each family."""
    done: dict[str, Finished] = {}

    def get(family: str) -> Finished:
        if family not in done:
            run = tmp_path_factory.mktemp(family) / "run"
            done[family] = work(freeze(run, _parallel(family, run, data), data, ranks=2, at_end=True), ranks=2)
        return done[family]

    return get


@pytest.mark.parametrize(("family", "close"), [("llama", 5e-7), ("qwen3", 1e-4)])
def test_two_ranks_are_one_process(
    family: str, close: float, pair: Callable[[str], Finished], data: Path, work: Work, tmp_path: Path
) -> None:
    """At the same global batch, to one rounding of a float32 loss; mcore rounds attention's inputs to float16, which magnifies bits."""
    config = native(family, tmp_path, data)
    config["train_dataset"]["data_loader"]["shuffle"] = False
    one, two = work(freeze(tmp_path, config, data, at_end=True)), pair(family)
    assert len(two.losses()) == STEPS
    np.testing.assert_allclose(two.losses(), one.losses(), rtol=0, atol=close)
    assert not (two.path / "logs" / "rank_2.events.jsonl").exists()
    assert [len(read_rank_steps(two.path / "logs" / f"rank_{rank}.steps.jsonl")) for rank in (0, 1)] == [STEPS, STEPS]
    shares = [two.heldout(rank) for rank in (0, 1)]
    assert [share["tokens"] for share in shares] == [12 * SEQ, 8 * SEQ]  # 20 rows in batches of four, dealt out in turn
    assert sum(share["loss_sum"] for share in shares) == pytest.approx(one.heldout()["loss_sum"], rel=close)


def test_weights_are_equal_on_all_ranks(pair: Callable[[str], Finished], tmp_path: Path) -> None:
    code = (
        "import sys, mindspore\n"
        "one, two = (mindspore.load_checkpoint(path) for path in sys.argv[1:])\n"
        "print(len(one), sorted(one) == sorted(two) and all((one[k].asnumpy() == two[k].asnumpy()).all() for k in one))"
    )
    files = [pair("llama").path / "checkpoint" / f"rank_{rank}" / f"tiny_rank_{rank}-1_{STEPS}.ckpt" for rank in (0, 1)]
    count, equal = run_python("-c", code, *files, cwd=tmp_path).stdout.split()[-2:]
    assert (int(count) > 20, equal) == (True, "True")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_two_ranks_resume_without_a_seam(family: str, pair: Callable[[str], Finished], data: Path, work: Work, tmp_path: Path) -> None:
    """.ckpt and safetensors; mindformers waits at barriers on the way."""
    straight, run = pair(family), tmp_path / "run"
    shutil.copytree(straight.path / "checkpoint", run / "checkpoint", ignore=shutil.ignore_patterns(f"{STEPS:08d}.rank_*"))
    (run / "metrics.jsonl").write_bytes((straight.path / "metrics.jsonl").read_bytes())
    config = _parallel(family, run, data)
    config["callbacks"][0]["stop_step"] = STEPS - HALF
    kind = "ckpt" if family == "llama" else "safetensors"
    config |= {"load_checkpoint": str(run / "checkpoint"), "resume_training": f"tiny_rank_0-1_{HALF}.{kind}"}
    resumed = work(freeze(run, config, data, ranks=2, resume={"checkpoint": "", "step": HALF}), ranks=2)
    same = ("step", "loss", "lr", "grad_norm")
    assert [[step[key] for key in same] for step in resumed.steps()] == [[step[key] for key in same] for step in straight.steps()]


def test_ranks_that_were_stopped_before_their_evaluation_only_evaluate(pair: Callable[[str], Finished], work: Work, tmp_path: Path) -> None:
    """Of their last checkpoint, to the same bits; nothing is trained, and nothing of their records is lost."""
    straight, run = pair("llama"), tmp_path / "run"
    shutil.copytree(straight.path, run)
    shutil.rmtree(run / "heldout")
    (last,) = [each for each in find(run).complete if each.step == STEPS]
    freeze_evaluation(run, Resume(folder=str(last.folder), file_name=last.file_name, step=STEPS))
    again = work(run, ranks=2)
    assert [again.heldout(rank) for rank in (0, 1)] == [straight.heldout(rank) for rank in (0, 1)]
    assert again.steps() == straight.steps()
    assert [event["phase"] for event in again.events()][-6:] == ["done", "start", "import", "build", "evaluate", "done"]


@pytest.fixture(scope="module")
def together(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What collectives.py says on both ranks."""
    out = tmp_path_factory.mktemp("collectives")
    done = msrun(HERE / "collectives.py", data, out, cwd=out)
    assert done.returncode == 0, done.stdout[-3000:]
    return [json.loads((out / f"rank_{rank}.json").read_text()) for rank in (0, 1)]


def test_barrier(together: list[dict[str, Any]]) -> None:
    for said in together:
        assert "Unsupported op [Barrier]" in said["stock_barrier"], "mindspore has a barrier on CPU: ours is not needed"
        assert said["barrier"] == said["barrier_with_full_batch"] == "passed"
    assert min(said["left"] for said in together) > max(said["came"] for said in together), "nobody leaves before all have come"


def test_the_loss_is_the_mean_over_ranks(together: list[dict[str, Any]]) -> None:
    assert [said["mean"] for said in together] == [1.5, 1.5]
    assert [said["stop"] for said in together] == [True, True], "one rank was asked, all stop"
    assert [said["host_times"] for said in together] == [[0.0, 0.5], [0.0, 0.5]]


def test_one_rank_overflows_and_all_skip(together: list[dict[str, Any]]) -> None:
    for said in together:
        assert said["one_rank_overflows"] == [True, [0.0, 0.0]]
        assert said["gradients_mean"] == [False, [-1.0, -1.5]]


def test_gradients_without_gradients_mean_are_summed(together: list[dict[str, Any]]) -> None:
    """What traps.gradients_mean refuses."""
    for said in together:
        assert said["gradients_sum"] == [False, [-2.0, -3.0]]


def test_rows_of_ranks_are_disjoint_and_reshuffled(together: list[dict[str, Any]]) -> None:
    first, second = ([set(said["rows"][epoch]) for said in together] for epoch in (0, 1))
    for zero, one in (first, second):
        assert len(zero) == len(one) == 48
        assert not zero & one
    assert together[0]["rows"][0] != together[0]["rows"][1]
