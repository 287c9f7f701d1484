"""Real training on one rank: the same numbers as bare mindformers, every step recorded, resumed without a seam."""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy_llama
import pytest
from frozen import BATCH, SEQ, STEPS, freeze, native
from processes import Finished, environment, run_python

from mindrecipe.checkpoints.find import find, trusted
from mindrecipe.measure.record import read_usage

pytestmark = pytest.mark.e2e
HALF = STEPS // 2
Work = Callable[..., Finished]

PARTS = """
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore.train import Callback

@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class PartOfMine(Callback):
    def on_train_end(self, run_context):
        print(f"part of mine, at step {run_context.original_args().cur_step_num}", flush=True)
"""


@pytest.fixture(scope="session")
def llama(data: Path, work: Work, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    run = tmp_path_factory.mktemp("llama") / "run"
    config = native("llama", run, data)
    config["callbacks"].append({"type": "PartOfMine"})
    config["runner_wrapper"]["local_norm"] = True
    return work(freeze(run, config, data, at_end=True, imports=["parts_of_mine"]), files={"parts_of_mine.py": PARTS})


@pytest.fixture(scope="session")
def qwen3(data: Path, work: Work, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    run = tmp_path_factory.mktemp("qwen3") / "run"
    return work(freeze(run, native("qwen3", run, data), data, at_end=True))


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_same_losses_as_bare_mindformers(
    family: str, request: pytest.FixtureRequest, bare: Callable[..., list[float]], tmp_path: Path
) -> None:
    """Bit by bit, from the same file (without the callback that only run.imports knows)."""
    run: Finished = request.getfixturevalue(family)
    config = (run.path / "mindformers.yaml").read_text().replace("- type: PartOfMine\n", "").replace(str(run.path), str(tmp_path / "out"))
    (tmp_path / "mindformers.yaml").write_text(config)
    assert run.losses() == bare(tmp_path / "mindformers.yaml")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_every_step_is_recorded(family: str, request: pytest.FixtureRequest) -> None:
    run: Finished = request.getfixturevalue(family)
    steps = run.steps()
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.2
    assert {step["epoch"] for step in steps} == {1}
    for step in steps:
        assert step["data_time"] + step["compute_time"] + step["other_time"] == pytest.approx(step["step_time"])
        assert min(step["data_time"], step["compute_time"], step["other_time"]) > 0
        assert step["tokens_per_s"] == pytest.approx(BATCH * SEQ / step["step_time"])
        assert step["tflops_per_device"] == pytest.approx(6.0e5 * step["tokens_per_s"] / 1e12)
        assert step["mfu"] == pytest.approx(step["tflops_per_device"])  # the fixture's peak is 1 TFLOP/s
        assert step["memory_bytes"] > 100e6
        assert step["grad_norm"] > 0
        assert (step["loss_scale"], step["overflow"]) == (1.0, False)
    assert steps[2]["lr"] == pytest.approx(0.005)  # warmed up after two steps
    assert steps[1]["lr"] < steps[2]["lr"] > steps[-1]["lr"]


def test_norms_of_layers_updates_and_use_are_recorded(llama: Finished, qwen3: Finished) -> None:
    for step in llama.steps():
        groups = step["grad_groups"]
        assert set(groups) == {"tok_embeddings", "layers.0", "layers.1", "norm_out", "lm_head"}
        assert math.sqrt(sum(norm**2 for norm in groups.values())) == pytest.approx(step["grad_norm"], rel=1e-4)
        assert (step["update_ratio"] is not None) == (step["step"] % 5 == 0) and step["cpu_time"] > 0
        assert step["update_ratio"] is None or 1e-6 < step["update_ratio"] < 1
        assert 0 < step["checkpoint_time"] < step["other_time"]
    saving = {step["step"]: step["checkpoint_time"] for step in llama.steps()}
    assert saving[HALF] > 5 * sorted(saving.values())[STEPS // 2], "a step that saves takes its time"
    assert {step["grad_groups"] for step in qwen3.steps()} == {None}
    samples = read_usage(llama.path / "logs" / "rank_0.usage.jsonl")
    assert len(samples) > 3 and max(sample.rss for sample in samples) > 1e8 and max(sample.cpu for sample in samples) > 0.1
    assert not list(llama.path.glob("logs/*.steps.jsonl")), "one rank has no others to wait for"


def test_phases_and_checkpoints_are_announced(llama: Finished, qwen3: Finished) -> None:
    phases = ["start", "import", "build", "compile", "train", "save", "checkpoint", "save", "checkpoint", "evaluate", "done"]
    for run in (llama, qwen3):
        events = run.events()
        assert [event["phase"] for event in events] == phases
        saved = [event["detail"] for event in events if event["phase"] == "checkpoint"]
        assert [(detail["step"], detail["complete"]) for detail in saved] == [(HALF, True), (STEPS, True)]
        assert all(Path(detail["path"]).exists() for detail in saved)


def test_droppings_land_in_the_run(llama: Finished) -> None:
    assert sorted(path.name for path in llama.cwd.iterdir() if path.name != "__pycache__") == ["parts_of_mine.py"]
    assert "part of mine, at step 12" in llama.output


def test_heldout_loss_against_numpy(llama: Finished, data: Path, tmp_path: Path) -> None:
    """An independent forward pass over the weights of the last checkpoint; 20 rows in batches of 8 leave an incomplete one."""
    [last] = (llama.path / "checkpoint" / "rank_0").glob("*_12.ckpt")
    dump = (
        "import sys, numpy, mindspore\n"
        "numpy.savez(sys.argv[2], **{k: v.asnumpy() for k, v in mindspore.load_checkpoint(sys.argv[1]).items()})"
    )
    assert run_python("-c", dump, last, tmp_path / "weights.npz", cwd=tmp_path).returncode == 0
    weights = {name: value.astype(np.float64) for name, value in np.load(tmp_path / "weights.npz").items()}
    loss_sum, tokens = numpy_llama.token_losses(weights, np.load(data / "heldout.npy"))
    assert llama.heldout()["tokens"] == tokens == 20 * SEQ
    assert llama.heldout()["loss_sum"] == pytest.approx(loss_sum, rel=1e-5)


def test_mcore_heldout_loss_is_that_of_training(qwen3: Finished) -> None:
    """Unseen rows of the same chain cost about what the last training batches did, far below a uniform guess (ln 256 = 5.5)."""
    heldout = qwen3.heldout()
    assert heldout["tokens"] == 20 * SEQ
    assert heldout["loss_sum"] / heldout["tokens"] == pytest.approx(qwen3.losses()[-1], abs=0.15)


def _seamless(straight: Finished, resumed: Finished) -> None:
    same = ("step", "epoch", "loss", "lr", "grad_norm", "loss_scale", "overflow")
    assert [[step[key] for key in same] for step in resumed.steps()] == [[step[key] for key in same] for step in straight.steps()]


def test_resume_from_ckpt(llama: Finished, data: Path, work: Work, tmp_path: Path) -> None:
    """The run goes on in its own folder; what a killed run had recorded after the checkpoint is recorded once."""
    run = tmp_path / "run"
    config = native("llama", run, data)
    config["callbacks"][0]["stop_step"] = HALF + 3
    cut = work(freeze(run, config, data, total_steps=HALF + 3, save_final=False))
    assert [event["detail"]["step"] for event in cut.events() if event["phase"] == "checkpoint"] == [HALF]
    config["callbacks"][0]["stop_step"] = STEPS - HALF
    config |= {"load_checkpoint": str(run / "checkpoint"), "resume_training": f"tiny_rank_0-1_{HALF}.ckpt"}
    resumed = work(freeze(run, config, data, resume={"checkpoint": "", "step": HALF}, at_end=True))
    _seamless(llama, resumed)
    assert resumed.heldout() == llama.heldout()
    assert resumed.events()[-2]["phase"] == "evaluate"
    names = sorted(path.name for path in (run / "checkpoint" / "rank_0").glob("*.ckpt"))
    assert names == [f"tiny_rank_0-1_{STEPS}.ckpt", f"tiny_rank_0-1_{HALF}.ckpt"]  # true steps; save_final=false left out step 9
    found = trusted(find(run))
    assert [each.step for each in found.complete] == [HALF, STEPS] and not found.broken


def test_resume_from_safetensors(qwen3: Finished, data: Path, work: Work, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = native("qwen3", run, data)
    shutil.copytree(qwen3.path / "checkpoint", run / "checkpoint", ignore=shutil.ignore_patterns(f"{STEPS:08d}.rank_*"))
    config["callbacks"][0]["stop_step"] = STEPS - HALF
    config["checkpoint"] |= {"load_path": str(run / "checkpoint" / f"iteration_{HALF:08d}"), "no_load_optim": False}
    (run / "metrics.jsonl").write_bytes((qwen3.path / "metrics.jsonl").read_bytes())
    _seamless(qwen3, work(freeze(run, config, data, resume={"checkpoint": "", "step": HALF})))


def test_data_seed_changes_the_rows_and_not_the_weights(llama: Finished, data: Path, work: Work, tmp_path: Path) -> None:
    config = native("llama", tmp_path, data)
    config["callbacks"] = [{"type": "TrainCallBack", "stop_step": 2}]
    other = work(freeze(tmp_path, config, data, total_steps=2, data_seed=7))
    assert other.losses()[0] != llama.losses()[0]
    config["train_dataset"]["data_loader"]["shuffle"] = False
    config["callbacks"][0]["stop_step"] = 1
    one, two = (work(freeze(tmp_path / str(seed), config, data, total_steps=1, data_seed=seed)).losses() for seed in (7, 42))
    assert one == two


def test_a_run_that_diverges_says_where(data: Path, work: Work, tmp_path: Path) -> None:
    config = native("llama", tmp_path, data)
    config["lr_schedule"] = {"type": "ConstantWarmUpLR", "learning_rate": 1.0e30, "warmup_steps": 0}
    run = work(freeze(tmp_path, config, data), fails=True)
    error = run.error()
    assert (run.code, error["type"]) == (1, "Overflow")
    assert error["step"] == next(step["step"] for step in run.steps() if step["overflow"] or isinstance(step["loss"], str))
    assert run.steps()[-1]["step"] < STEPS, "it trained on"


def test_a_loss_scale_that_is_too_large_shrinks(data: Path, work: Work, tmp_path: Path) -> None:
    """float16 everywhere (O3), with a first loss scale that must overflow: the steps are skipped, then training goes on."""
    config = native("llama", tmp_path, data)
    half = ("compute_dtype", "param_init_type", "layernorm_compute_type", "softmax_compute_type", "rotary_dtype")
    config["model"]["model_config"] |= dict.fromkeys(half, "float16")
    config["runner_wrapper"]["scale_sense"] = {
        "type": "DynamicLossScaleUpdateCell",
        "loss_scale_value": 2.0**24,
        "scale_factor": 4,
        "scale_window": 100,
    }
    steps = work(freeze(tmp_path, config, data)).steps()
    skipped = [step["overflow"] for step in steps]
    assert skipped[0] and not skipped[-1]
    assert skipped == sorted(skipped, reverse=True)
    assert steps[-1]["loss_scale"] < 2.0**24
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.1


def test_a_missing_module_of_the_users(data: Path, work: Work, tmp_path: Path) -> None:
    run = work(freeze(tmp_path, native("llama", tmp_path, data), data, imports=["no_such_part"]), fails=True)
    error = run.error()
    assert (run.code, error["type"]) == (1, "UserError")
    assert "no_such_part" in error["message"]


def test_sigterm_saves_at_the_next_step_boundary(data: Path, tmp_path: Path) -> None:
    config: dict[str, Any] = native("llama", tmp_path / "run", data)
    config["callbacks"][0]["stop_step"] = 100_000
    config["runner_config"]["epochs"] = 100_000
    config["callbacks"][-1]["save_checkpoint_steps"] = 1_000_000
    run = freeze(tmp_path / "run", config, data, total_steps=100_000, save_final=False, at_end=True)
    with (tmp_path / "log").open("w+") as log:
        rank = subprocess.Popen(
            [sys.executable, "-m", "mindrecipe.worker", str(run)], cwd=tmp_path, env=environment(), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        metrics, ends = run / "metrics.jsonl", time.monotonic() + 300
        while not metrics.exists() or metrics.read_text().count("\n") < 5:
            assert rank.poll() is None and time.monotonic() < ends, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.05)
        rank.send_signal(signal.SIGTERM)
        assert rank.wait(200) == 128 + signal.SIGTERM
    finally:
        rank.kill()
    finished = Finished(run, 143, "", tmp_path)
    last = finished.steps()[-1]["step"]
    assert finished.events()[-1]["phase"] == "stopped" and finished.events()[-1]["detail"] == {"step": last}
    assert [each.step for each in trusted(find(run)).complete] == [last]


def test_a_signal_ends_it_and_the_last_checkpoint_stays(data: Path, tmp_path: Path) -> None:
    config: dict[str, Any] = native("llama", tmp_path / "run", data)
    config["callbacks"][0]["stop_step"] = 100_000
    config["runner_config"]["epochs"] = 100_000
    config["callbacks"][-1]["save_checkpoint_steps"] = 2
    run = freeze(tmp_path / "run", config, data, total_steps=100_000)
    log = (tmp_path / "log").open("w+")
    rank = subprocess.Popen(
        [sys.executable, "-m", "mindrecipe.worker", str(run)], cwd=tmp_path, env=environment(), stdout=log, stderr=subprocess.STDOUT
    )
    try:
        metrics, ends = run / "metrics.jsonl", time.monotonic() + 300
        while not metrics.exists() or metrics.read_text().count("\n") < 5:
            assert rank.poll() is None and time.monotonic() < ends, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.05)
        rank.send_signal(signal.SIGINT)
        # mindspore's data pipeline turns it into SIGTERM: the rank saves at its next step, and leaves, long before its 100,000th step
        assert rank.wait(200) in (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGTERM)
    finally:
        rank.kill()
    assert "Traceback" not in (tmp_path / "log").read_text()
    whole = sorted((run / "checkpoint" / "rank_0").glob("*.ckpt"))
    assert whole
    from mindrecipe.checkpoints.contents import read_entries

    assert all({"step_num", "global_step"} <= {entry.name for entry in read_entries(path)} for path in whole)
