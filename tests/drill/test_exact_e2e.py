"""A run that is killed and goes on gives, step by step and bit for bit, the losses of the run that was not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_run import SMALL

from mindrecipe.drill import drill

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

QWEN = ["+model=qwen3_tiny", "model.num_layers=1", "model.seq_length=64", "dataset.tokenizer=bytes", "model.vocab_size=512"]
TWO = ["parallel=data", "launch.workers=2"]


def check(overrides: list[str], folder: Path, *faults: str, steps: int = 12, every: int = 3) -> None:
    straight, *broken = drill(overrides, folder, faults=faults, steps=steps, every=every, seed=len(str(overrides)))
    assert straight.identical, straight
    for row, asked in zip(broken, faults, strict=True):
        assert row.identical, row
        assert [hit.fault for hit in row.hits] == asked.split("+") and all(hit.recovered for hit in row.hits), row
        for hit in row.hits:
            assert hit.fault != "save" or hit.unfinished, f"{hit}: the kill came to a write that was over"


def test_loss_scaling_in_float16(tmp_path: Path) -> None:
    """The scale and its counters are resumed: a window of 4 makes it grow twice on the way."""
    check([*SMALL, "amp=O2", "amp.loss_scale_window=4", "amp.loss_scale_value=4096"], tmp_path, "worker")


@pytest.mark.parametrize(
    ("more", "faults"), [([], ("worker+launcher+worker+sigterm",)), (TWO, ("worker+launcher+save",))], ids=["one_rank", "two_ranks"]
)
def test_in_the_middle_of_an_epoch_and_over_its_end(tmp_path: Path, more: list[str], faults: tuple[str, ...]) -> None:
    """An epoch of seven or so batches, shuffled anew each time. One run is killed again and again."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"line {number}: the {number * 7919 % 1000}th of all words\n" for number in range(120)))
    data = ["dataset=text", f"dataset.files=[{text}]", "dataset.heldout_fraction=0", "dataset.batch_size=4"]
    check([*SMALL, *data, *more], tmp_path / "runs", *faults, steps=20, every=4)


def test_safetensors_of_the_mcore_architecture(tmp_path: Path) -> None:
    check(QWEN, tmp_path, "save+corrupt", steps=16)


def test_saving_in_the_background(tmp_path: Path) -> None:
    check([*SMALL, "checkpoint.async_save=true"], tmp_path, "save")


def test_a_full_disk(tmp_path: Path) -> None:
    """Filled under the run, which ends and says so; with room again it goes on and loses nothing."""
    straight, row = drill(SMALL, tmp_path, faults=["disk"], steps=12, every=3, seed=1)
    assert straight.identical, straight
    if row.not_made is not None:
        pytest.skip(f"a file system of its own needs the right to mount: {row.not_made}")
    assert row.identical, row
    summaries = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("1_disk/run*/summary.json"))]
    assert [summary["state"] for summary in summaries] == ["failed", "completed"]
    assert summaries[0]["errors"][0]["type"] == "DiskFull"
