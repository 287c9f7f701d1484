"""The keys of the schema, and what is offered in place of one that is not there."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.config import keys
from mindrecipe.config.schema import RunConfig

#: what the issue promises to scripts
PROMISED = [
    "run.dir",
    "run.seed",
    "run.name",
    "schedule.total_steps",
    "schedule.warmup_steps",
    "optimizer.learning_rate",
    "optimizer.weight_decay",
    "optimizer.grad_clip",
    "dataset.batch_size",
    "dataset.num_parallel_workers",
    "dataset.prefetch_size",
    "model.seq_length",
    "model.num_layers",
    "model.hidden_size",
    "model.num_heads",
    "model.vocab_size",
    "parallel.data_parallel",
    "parallel.model_parallel",
    "parallel.context_parallel",
    "parallel.pipeline_stage",
    "parallel.micro_batch_num",
    "launch.nodes",
    "launch.devices_per_node",
    "launch.workers",
    "launch.master_addr",
    "launch.master_port",
    "launch.node_rank",
    "checkpoint.save_steps",
    "checkpoint.keep",
    "checkpoint.resume",
    "amp.dtype",
    "memory.max_device_memory",
]


@pytest.mark.parametrize("key", PROMISED)
def test_names_that_scripts_count_on(key: str) -> None:
    assert key in keys.knobs()
    assert keys.is_known(key)


@pytest.mark.parametrize("key, knob", keys.knobs().items())
def test_every_knob_is_documented_and_its_default_is_legal(key: str, knob: keys.Knob) -> None:
    assert knob.doc.doc.endswith((".", ")")), key
    inner, optional = keys.optional_of(knob.type)
    assert optional or knob.default is not None or inner is keys.Any, key
    if knob.doc.choices and knob.default is not None:
        assert knob.default in knob.doc.choices
    if isinstance(knob.default, int | float) and not isinstance(knob.default, bool):
        assert knob.doc.ge is None or knob.default >= knob.doc.ge
        assert knob.doc.gt is None or knob.default > knob.doc.gt
        assert knob.doc.le is None or knob.default <= knob.doc.le


def test_every_section_is_frozen_and_has_slots() -> None:
    for cls in (RunConfig, *keys.sections().values()):
        made = cls()
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            made.stpes = 5
        assert not hasattr(made, "__dict__")


def test_free_mappings() -> None:
    assert keys.free_mapping_of("launch.env.FOO") == "launch.env"
    assert keys.free_mapping_of("native.a.b.c") == "native"
    assert keys.free_mapping_of("model.num_layers") is None
    assert keys.is_known("native.anything.at.all")
    assert not keys.is_known("model.num_layer")
    assert keys.is_known("model")


@given(st.text(max_size=30))
def test_nearest_word_never_fails(text: str) -> None:
    assert set(keys.nearest_word(text, ["O0", "O1", "auto"])) <= {"O0", "O1", "auto"}


@pytest.mark.parametrize("word, near", [("o2", "O2"), ("LLAMA2_7B", "llama2_7b"), ("data", "data_parallel"), ("semi", "semi_auto")])
def test_nearest_word_sees_through_case_and_beginnings(word: str, near: str) -> None:
    assert keys.nearest_word(word, ["O0", "O2", "llama2_70b", "llama2_7b", "data_parallel", "semi_auto"])[0] == near


@pytest.mark.parametrize(
    "hint, inner, optional",
    [(int, int, False), (int | None, int, True), (list[str] | None, list[str], True), (list[int] | int, list[int] | int, False)],
)
def test_optional_of(hint: object, inner: object, optional: bool) -> None:
    assert keys.optional_of(hint) == (inner, optional)
