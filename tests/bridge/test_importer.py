"""A native YAML becomes the recipe a person would have written, and nothing is lost or told wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.samples import DELETE, LLAMA, gpt2, llama, mcore, write
from mindrecipe.bridge.importer import Imported, import_file
from mindrecipe.bridge.verify import round_trip
from mindrecipe.bridge.write import recipe_text
from mindrecipe.errors import UserError

Importer = Callable[..., Imported]


@pytest.fixture
def imported(tmp_path: Path) -> Importer:
    def run(tree: dict[str, Any] | None = None, **options: Any) -> Imported:
        return import_file(write(tree or yaml.safe_load(LLAMA), tmp_path), **options)

    return run


def test_options_are_recognised(imported: Importer) -> None:
    found = imported()
    groups = ("model", "dataset", "parallel", "amp", "recompute", "device")
    assert [found.choices[group] for group in groups] == ["llama2_7b", "mindrecord", "semi_auto", "O2", "full", "ascend_910b"]
    assert set(found.choices) <= {*groups, "checkpoint"}
    assert found.knobs["amp.dtype"] == "float16"
    assert found.knobs["checkpoint.save_steps"] == 100
    assert "parallel.data_parallel" not in found.knobs  # eight devices say it
    assert found.equal


def test_what_mindformers_takes_without_a_key_is_what_the_knob_says(imported: Importer) -> None:
    """LlamaConfig's initializer is 0.01 and its fused norm on: the recipe must not say ours."""
    found = imported()
    assert found.config.model.init_std == 0.01
    assert found.derived.config.model.fused_rms_norm is True
    assert found.config.omit["model"]["model_config"]["init_method_std"] == 0.01


def test_the_silent_resets_are_told_with_figures(imported: Importer) -> None:
    text = {note.key: note.text for note in imported().of("effect")}
    assert text["parallel_config.micro_batch_num"] == "micro_batch_num=16 is reset to 1 with one stage: the global batch is 64, not 1024"
    assert "overwrites 6: the global batch is 64" in text["train_dataset.batch_size"]
    assert "int(steps / 2 * 2) rounds of 2 steps" in text["runner_config.sink_size"]
    pipeline = imported(llama(parallel_config__pipeline_stage=2, parallel_config__data_parallel=4))
    text = {note.key: note.text for note in pipeline.of("effect")}
    assert "reset from 8 to 1 with 2 stages: the global batch is 64, not 512" in text["runner_config.gradient_accumulation_steps"]
    assert "reset to false with 2 stages" in text["parallel_config.vocab_emb_dp"]


def test_sink_size_that_loses_steps_is_told_exactly_where_the_samples_are_known(imported: Importer) -> None:
    tree = mcore()
    tree["train_dataset"]["data_loader"]["sizes"] = [8000 + 64, 0, 0]
    tree["runner_config"] |= {"sink_size": 50, "epochs": 1}
    text = {note.key: note.text for note in imported(tree).of("effect")}
    assert text["runner_config.sink_size"] == "of 126 steps an epoch and 1 epochs, 100 steps run: 26 are lost"


@pytest.mark.parametrize("tree", [llama(), gpt2(), mcore(), llama(use_parallel=False), llama(callbacks=DELETE), llama(do_eval=True)])
def test_the_written_recipe_composes_to_the_original(tree: dict[str, Any], imported: Importer, here: Path) -> None:
    from mindrecipe.bridge.compare import differences
    from mindrecipe.lower import template

    found = imported(tree)
    native = round_trip(found, here)
    assert not list(differences(template.apply(native)[0], template.apply(found.target)[0]))
    assert found.target == tree


def test_a_model_that_is_no_option_comes_through_with_its_dimensions(imported: Importer) -> None:
    found = imported(gpt2())
    assert found.choices["model"] == "custom"
    assert found.config.model.num_layers == 12
    assert found.config.model.keys["num_layers"] == "num_layers"
    assert found.config.model.extra["hidden_act"] == "gelu"
    assert 100e6 < found.derived.parameters < 200e6
    experts = imported(mcore())
    assert experts.derived.family.architecture == "mcore"
    assert 25e9 < experts.derived.parameters < 35e9  # Qwen3-30B-A3B


def test_a_knob_of_an_imported_recipe_acts(imported: Importer, tmp_path: Path) -> None:
    """What was left to mindformers (`omit`) is written as soon as it is set, and dimensions of a custom model are."""
    from dataclasses import replace

    from mindrecipe.bridge.lowered import derived_of, native_of

    found = imported()
    config = replace(found.config, model=replace(found.config.model, rope_theta=500000.0))
    assert native_of(found.derived)["model"]["model_config"].get("theta") is None
    assert native_of(derived_of(config))["model"]["model_config"]["theta"] == 500000.0
    found = imported(gpt2())
    config = replace(found.config, model=replace(found.config.model, num_layers=3))
    assert native_of(derived_of(config))["model"]["model_config"]["num_layers"] == 3


def test_text_that_was_meant_as_a_value_is_mended_and_told(imported: Importer) -> None:
    found = imported(llama(lr_schedule__learning_rate="1e-5", model__model_config__n_kv_heads="None"))
    assert found.config.optimizer.learning_rate == 1e-5
    assert {note.key for note in found.of("mended")} == {"lr_schedule.learning_rate", "model.model_config.n_kv_heads"}
    assert found.config.model.extra["extend_method"] == "None"  # mindformers' own word


def test_duplicate_keys_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(LLAMA.replace("seed: 0\n", "seed: 0\nseed: 7\n"), encoding="utf-8")
    found = import_file(path)
    assert found.config.run.seed == 7
    assert [note.text for note in found.of("mended")] == ["written twice: line 1 is ignored, line 2 counts"]


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "crlf.yaml"
    path.write_bytes(LLAMA.replace("\n", "\r\n").encode())
    found = import_file(path)
    assert found.equal
    assert "CRLF" in found.of("mended")[0].text


def test_base_config_is_followed(tmp_path: Path) -> None:
    write(llama(), tmp_path, "base.yaml")
    path = write({"base_config": "./base.yaml", "seed": 5, "runner_config": {"epochs": 9}}, tmp_path)
    found = import_file(path)
    assert (found.config.run.seed, found.config.schedule.epochs, found.config.dataset.batch_size) == (5, 9, 1)


def test_names_of_older_versions(imported: Importer) -> None:
    tree = llama(runner_config__epoch=4, runner_config__epochs=DELETE, runner_config__per_epoch_size=-1)
    found = imported(tree)
    assert found.config.schedule.epochs == 4
    told = {note.key: note for note in found.of("renamed")}
    assert {"runner_config.epoch", "runner_config.per_epoch_size", "optimizer.type", "callbacks.1.type", "callbacks.2.type"} == set(told)
    assert "per_epoch_size" not in found.target["runner_config"]
    # what still loads is kept as written, unless it is to be updated
    assert found.config.optimizer.type == "FP32StateAdamWeightDecay"
    updated = imported(tree, update=True)
    assert updated.config.optimizer.type == "AdamW"
    assert updated.config.optimizer.betas is None  # 0.9 and 0.95 are ours
    assert [item["type"] for item in updated.target["callbacks"]] == ["MFLossMonitor", "CheckpointMonitor"]
    assert updated.equal


def test_a_key_that_stops_mindformers_is_left_out_and_told(imported: Importer) -> None:
    found = imported(llama(parallel_config__expert_paralel=2))
    assert [note.key for note in found.of("wrong")] == ["parallel_config.expert_paralel"]
    assert "expert_paralel" not in found.target["parallel_config"]


def test_dead_keys_are_told_and_kept(imported: Importer) -> None:
    found = imported(llama(profile_level=2))
    dead = {note.key for note in found.of("dead")}
    assert {"profile_level", "context.enable_graph_kernel", "train_dataset.batch_size", "model.model_config.top_k"} <= dead
    assert found.equal


def test_a_wrong_value_stays_native_and_is_told(imported: Importer) -> None:
    found = imported(llama(parallel_config__model_parallel="two"))
    assert found.config.native["parallel_config"]["model_parallel"] == "two"
    assert "must be an integer" in next(note.text for note in found.of("wrong"))
    assert found.equal


def test_what_a_recipe_cannot_carry_is_told(imported: Importer) -> None:
    found = imported(llama(context__odd={1: "a"}, context__missing="???"))
    assert {note.key for note in found.of("differs")} == {"context.odd.1", "context.missing"}
    assert not found.equal


def test_text_that_hydra_would_read_differently_is_kept(imported: Importer, here: Path) -> None:
    odd = {"a": "${oc.env:HOME}", "b": "1e-5x", "c": "1_0", "d": "yes", "e": "0x10", "f": "a\\${b}", "g": "", "h": "é 中", "path": "1e-5"}
    found = imported(llama(context__odd=odd))
    assert round_trip(found, here)["context"]["odd"] == odd


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"training": {"a": 1}, "parallelism": {"b": 2}}, "pynative"),
        ({"run_mode": "predict", "model": {"model_config": {"type": "LlamaConfig"}}, "processor": {}}, "only fit for predict"),
        (llama(trainer__type="ImageClassificationTrainer"), "image classification"),
        (llama(trainer__type="general", model__model_config__type="CLIPConfig"), "contrastive language-image"),
        ({"train_dataset": {"data_loader": {}}}, "part of a configuration"),
        ({"model": {"backbone": 1}}, "without model_config"),
    ],
)
def test_what_is_no_training_of_a_language_model_is_refused_by_name(tree: dict[str, Any], words: str, imported: Importer) -> None:
    if words == "without model_config":
        tree = llama(model=tree["model"])
    with pytest.raises(UserError, match=words):
        imported(tree)


def test_the_recipe_reads_like_one(imported: Importer) -> None:
    text = recipe_text(imported())
    assert text.startswith(
        "# @package _global_\n# llama2_7b, imported from native.yaml: 6.7 billion parameters, 8 x Ascend 910B, global batch 64"
    )
    assert "defaults:\n  - override /model: llama2_7b\n  - override /dataset: mindrecord\n" in text
    assert "gradient_accumulation_steps: 8\n" in text
    assert "hidden_size" not in text
