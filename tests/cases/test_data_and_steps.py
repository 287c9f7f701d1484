"""Public faults of data, steps, learning rates, callbacks, profiles and checkpoints, each by its number."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bridge.samples import LLAMA, llama, write
from cases.words import LLAMA_7B, TEN_ROWS, TINY, accepted, not_composed, refused, warned
from mends import findings, quick
from mindrecipe.bridge.importer import import_file
from mindrecipe.errors import UserError
from mindrecipe.resume import decide

pytestmark = pytest.mark.usefixtures("here")
STEPS = (*TINY, "schedule.total_steps=5", "schedule.warmup_steps=1")


def test_c46_ids_beyond_the_vocabulary() -> None:
    """Of ready records the ids themselves are read: tests/data/test_inspect_mindrecord.py."""
    refused(*TINY, "dataset.tokenizer_vocab_size=2048", by="dataset.tokenizer_vocabulary", says="more than model.vocab_size=1024")
    refused(*TINY, "model.eos_token_id=1024", by="model.token_ids")


def test_c47_a_batch_beyond_the_data() -> None:
    run = quick(*TINY, "dataset.batch_size=64").with_dataset(TEN_ROWS)
    (found,) = [finding for finding in run.check() if finding.severity == "error"]
    assert found.rule == "schedule.no_steps" and "10 rows" in found.what and "64" in found.what
    assert quick(*TINY, "dataset.batch_size=3").with_dataset(TEN_ROWS).derived.steps_per_epoch == 3
    keeps = quick(*TINY, "dataset.batch_size=3", "dataset.drop_remainder=false").with_dataset(TEN_ROWS)
    assert keeps.derived.steps_per_epoch == 4


def test_c50_two_batch_sizes(tmp_path: Path) -> None:
    native = quick(*TINY, "dataset.batch_size=9").lower()
    assert native["runner_config"]["batch_size"] == native["train_dataset"]["batch_size"] == 9
    assert native["train_dataset_task"]["dataset_config"]["batch_size"] == 9
    warned(*TINY, "native.train_dataset.batch_size=2", by="native.overwritten", says="runner_config.batch_size is put in its place")
    found = import_file(write(yaml.safe_load(LLAMA), tmp_path))
    (said,) = [note for note in found.of("effect") if note.key == "train_dataset.batch_size"]
    assert "overwrites 6" in said.text


def test_c52_a_learning_rate_as_text(tmp_path: Path) -> None:
    text = LLAMA.replace("learning_rate: 1.e-5", "learning_rate: 1e-5")
    (tmp_path / "text.yaml").write_text(text, encoding="utf-8")
    found = import_file(tmp_path / "text.yaml")
    assert found.config.optimizer.learning_rate == 1e-5
    assert any("learning_rate" in note.key for note in found.of("mended"))
    not_composed(*TINY, "optimizer.learning_rate='1e-5'", says="must be a number", mend="optimizer.learning_rate=1e-05")


def test_c53_warm_up_keys() -> None:
    refused(*TINY, "native.lr_schedule.warmup_epochs=1", "native.lr_schedule.warmup_ratio=null", by="native.refused", says="warmup_epochs")
    found = warned(*TINY, "native.lr_schedule.warmup_step=3", by="native.ignored_key", says="but warmup_steps")
    assert (found.mend or "").startswith("schedule.warmup_steps=3")
    not_composed(*TINY, "schedule.warmup_step=3", says="unknown key 'schedule.warmup_step'", mend="schedule.warmup_steps")
    refused(*TINY, "schedule.lr_end=0.1", "optimizer.learning_rate=0.001", by="schedule.lr_end")
    refused(*STEPS, "schedule.warmup_steps=5", by="schedule.warmup")


@pytest.mark.parametrize("window", [(4, 2), (50, 60), (6, 7)])
def test_c55_profiler_windows(window: tuple[int, int]) -> None:
    first, last = window
    refused(*STEPS, "profile=steps", f"profile.start={first}", f"profile.stop={last}", by="profile.window")
    given = ("native.profile=true", f"native.profile_start_step={first}", f"native.profile_stop_step={last}")
    refused(*STEPS, *given, by="native.refused", says="profile_start_step")


def test_c56_checkpoints() -> None:
    warned(*STEPS, "checkpoint.save_steps=1000", by="checkpoint.interval", says="beyond total_steps=5")
    not_composed(*TINY, "checkpoint.save_steps=0", says="must be at least 1")
    refused(*TINY, "run.name=my_rank_0", by="checkpoint.name")
    refused(*TINY, "checkpoint=steps", "checkpoint.save_final=false", by="checkpoint.always_final")
    warned(*TINY, "checkpoint=off", "schedule.total_steps=2000", by="checkpoint.nothing_kept")


def test_c58_a_resume_that_finds_nothing() -> None:
    for word in ("checkpoint.resume=must", "checkpoint.resume=/nowhere/at/all"):
        with pytest.raises(UserError):
            decide(quick(*TINY, word).with_dataset(TEN_ROWS).derived)
    refused(*TINY, "native.load_checkpoint=/c", "native.resume_training=true", by="native.trap", says="resumes")


def test_c60b_transformed_checkpoints() -> None:
    refused(*TINY, "native.auto_trans_ckpt=true", by="native.refused", says="needs a checkpoint to load")
    one = (*TINY, "native.auto_trans_ckpt=true", "native.load_checkpoint=/c")
    refused(*one, by="native.refused", says="src_strategy_path_or_dir on one device")
    mcore = ("+model=qwen3_tiny", "device=cpu", "native.auto_trans_ckpt=true")
    refused(*mcore, by="native.refused", says="has no effect beside the section")


def test_c60c_loading_from_where_it_saves() -> None:
    refused(*TINY, "checkpoint.load=out/checkpoint", "run.dir=out", by="checkpoint.same_folder")
    accepted(*TINY, "checkpoint.load=other/checkpoint", "run.dir=out")


def test_c60c_an_existing_run_directory(here: Path) -> None:
    (here / "out").mkdir()
    with pytest.raises(UserError, match="exists: a run never writes into another one's"):
        quick(*TINY, "run.dir=out").with_dataset(TEN_ROWS).freeze()
    assert list((here / "out").iterdir()) == []


def test_c62_run_mode(tmp_path: Path) -> None:
    found = import_file(write(llama(run_mode="fintune"), tmp_path))
    assert any(note.key == "run_mode" and "fintune" in note.text for note in found.of("wrong"))
    refused(*TINY, "native.run_mode=fintune", by="native.run_mode", mend="native.run_mode=finetune")


def test_c20_of_an_imported_file_is_no_alarm_beyond_its_faults(tmp_path: Path) -> None:
    found = import_file(write(llama(), tmp_path))
    assert {note.kind for note in found.notes} >= {"recognised", "effect"}
    assert findings(*LLAMA_7B, make=quick) == []
