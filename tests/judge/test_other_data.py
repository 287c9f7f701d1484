"""Which data an evaluation reads: what was typed and nothing of the run's own, with the tokenizer the run was trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import make, steps

from mindrecipe.data.spec import DataFacts, DataSpec
from mindrecipe.errors import UserError
from mindrecipe.judge.other_data import prepared
from mindrecipe.judge.recorded import Recorded
from mindrecipe.prepare import data_spec
from mindrecipe.run import Run

MODEL = {"family": "llama", "architecture": "legacy", "vocab_size": 512, "seq_length": 64, "eos_token_id": 2, "pad_token_id": 0}
TEXT = ["dataset=text", "dataset.files=[b.txt]"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[DataSpec]:
    """What data sets were asked for; none is built."""
    found: list[DataSpec] = []

    def prepare(run: Run, _: Any) -> Run:
        found.append(data_spec(run.derived))
        return run.with_dataset(
            DataFacts(
                train_files=("t",), heldout_files=("h",), columns=("input_ids",), train_rows=9, heldout_rows=9, train_tokens=9,
                heldout_tokens=9, unigram_entropy=None, fingerprint="made",
            )
        )  # fmt: skip

    monkeypatch.setattr(Run, "prepare", prepare)
    return found


def run_on(folder: Path, *command: str, made: str | None = None, **dataset: Any) -> Recorded:
    """A run whose config.yaml says ``dataset``, and whose data was made with the tokenizer.json ``made``."""
    facts = {"tokenizer": made, "heldout_files": [], "fingerprint": "abc"}
    whole = {"source": "text", "files": ["a.txt"], "heldout_files": [], "tokenizer": "bpe", "columns": [], "cache_dir": None} | dataset
    lock = {"command": ["+model=llama2_tiny", *command]}
    return Recorded(make(folder / "run", steps(5), config={"model": MODEL, "dataset": whole}, derived={"dataset": facts}, lock=lock))


def test_bytes_stay_bytes(here: Path, asked: list[DataSpec]) -> None:
    run = run_on(here, "dataset.tokenizer=bytes", tokenizer="bytes", source="stdlib")
    assert prepared(run, [*TEXT, "dataset.heldout_fraction=0.9"], print).fingerprint == "made"
    (spec,) = asked
    assert (spec.tokenizer, spec.files, spec.heldout_fraction) == ("bytes", (str(here / "b.txt"),), 0.9)


def test_a_tokenizer_file_is_found_wherever_it_stands(here: Path, asked: list[DataSpec]) -> None:
    own = here / "é, (a=b) c/tokenizer.json"
    own.parent.mkdir()
    own.write_text("{}")
    run = run_on(here, made=str(own))
    prepared(run, TEXT, print)
    prepared(run, [*TEXT, "dataset.tokenizer=bytes"], print)
    assert [spec.tokenizer for spec in asked] == [str(own), "bytes"]
    own.unlink()
    with pytest.raises(UserError, match="its tokenizer is gone"):
        prepared(run, TEXT, print)


@pytest.mark.parametrize(
    ("dataset", "words"), [({"source": "mindrecord"}, []), ({"source": "text", "tokenizer": "bytes"}, ["dataset.tokenizer=bpe"])]
)
def test_no_tokenizer_is_trained_for_an_evaluation(dataset: dict[str, Any], words: list[str], here: Path, asked: list[DataSpec]) -> None:
    run = run_on(here, **dataset)
    with pytest.raises(UserError, match="a new one would give other ids") as fault:
        prepared(run, [*TEXT, *words], print)
    assert "dataset.tokenizer=" in str(fault.value.mend) and not asked
    prepared(run, [*TEXT, "dataset.tokenizer=bytes"], print)
    assert asked[0].tokenizer == "bytes"


def test_ready_files_need_no_tokenizer(here: Path, asked: list[DataSpec]) -> None:
    run = run_on(here, source="mindrecord", columns=["tokens"])
    prepared(run, ["dataset=mindrecord", "dataset.files=[b.mindrecord]", "dataset.heldout_files=[c.mindrecord]"], print)
    assert asked[0].columns == ("tokens",) and asked[0].heldout_files == (str(here / "c.mindrecord"),)


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["dataset.files=[b.txt]"], "dataset=text 'dataset.files=[b.txt]'"),
        (["dataset.files=[b.mindrecord]", "dataset.heldout_files=[c.mindrecord]"], "dataset=mindrecord 'dataset.files=[b.mindrecord]'"),
        (["dataset.heldout_fraction=0.9"], "dataset=stdlib"),
        (["dataset.heldout_files=[b.txt]"], "dataset=stdlib"),
    ],
)
def test_a_part_of_a_data_set_is_refused(words: list[str], mend: str, here: Path, asked: list[DataSpec]) -> None:
    """It would be mixed with another one's: with a default, or with a split of which most was trained on."""
    with pytest.raises(UserError, match="part of a data set") as fault:
        prepared(run_on(here, "dataset=text", "dataset.files=[a.txt]", tokenizer="bytes"), words, print)
    assert str(fault.value.mend).startswith(mend) and not asked


def test_nothing_of_the_runs_own_data_is_read(here: Path, asked: list[DataSpec]) -> None:
    """Neither what was typed for it nor what its recipe says by now."""
    (here / "recipes").mkdir()
    (here / "recipes/mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /model: llama2_tiny\n  - override /dataset: text\n"
        "model:\n  seq_length: 32\ndataset:\n  files: [a.txt]\n  heldout_files: [h.txt]\n"
    )
    run = run_on(here, "+recipe=mine", "dataset.text_field=x", heldout_files=["h.txt"], tokenizer="bytes", cache_dir=str(here / "a b"))
    prepared(run, TEXT, print)
    prepared(run, ["dataset.source=stdlib"], print)
    assert [(spec.source, spec.files, spec.heldout_files, spec.text_field) for spec in asked] == [
        ("text", (str(here / "b.txt"),), (), "text"),
        ("stdlib", (), (), "text"),
    ]
    assert {(spec.seq_length, spec.vocab_size, spec.pad_token_id, spec.cache_dir) for spec in asked} == {(64, 512, 0, str(here / "a b"))}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["dataset=stdlib", "dataset.files=[b.txt]"], "dataset.files has no effect with dataset=stdlib"),
        (["dataset=text"], "dataset=text needs files"),
        (["dataset=stdlib", "dataset.batch_size=4"], "only its data can be another"),
        (["dataset=stdlib", "+dataset.shuffle=false"], "only its data can be another"),
        (["dataset=stdlib", "optimizer.learning_rate=1"], "only its data can be another"),
        (["dataset=text", "dataset.file=[b.txt]"], "unknown key 'dataset.file'"),
    ],
)
def test_words_that_would_be_ignored(words: list[str], says: str, here: Path, asked: list[DataSpec]) -> None:
    with pytest.raises(UserError) as fault:
        prepared(run_on(here, tokenizer="bytes"), words, print)
    assert says in str(fault.value) and "mend:" in str(fault.value) and not asked
