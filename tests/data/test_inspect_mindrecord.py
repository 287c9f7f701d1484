from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mindrecipe.data.inspect import inspect_mindrecord
from mindrecipe.data.recordfile import _integers, open_record, read_rows
from mindrecipe.errors import UserError

pytestmark = pytest.mark.e2e

WRITE = """
import sys
import numpy as np
from mindspore.mindrecord import FileWriter

def write(name, rows, page=None, **types):
    writer = FileWriter(name)
    if page:
        writer.set_page_size(page)
    shape = {"shape": [-1]}
    writer.add_schema({column: {"type": kind, **({} if kind == "string" else shape)} for column, kind in types.items()}, "test")
    if rows:
        writer.write_raw_data(rows)
    writer.commit()

rng = np.random.default_rng(0)
def ids(count, width, top=512, kind=np.int32):
    return [rng.integers(0, top, width).astype(kind) for _ in range(count)]

write("good.mindrecord", [{"input_ids": row} for row in ids(50, 33)], input_ids="int32")
write("held.mindrecord", [{"input_ids": row} for row in ids(5, 33)], input_ids="int32")
write("long.mindrecord", [{"input_ids": row, "title": "x"} for row in ids(3, 33, kind=np.int64)], input_ids="int64", title="string")
write("short.mindrecord", [{"input_ids": row} for row in ids(9, 33) + ids(1, 20)], input_ids="int32")
write("wide.mindrecord", [{"input_ids": row} for row in ids(9, 33, top=9000)], input_ids="int32")
write("three.mindrecord", [{"input_ids": row, "labels": row + 1, "loss_mask": np.ones(32, np.float32)} for row in ids(2000, 32)],
      page=1 << 16, input_ids="int32", labels="int32", loss_mask="float32")
write("float.mindrecord", [{"input_ids": row.astype(np.float32)} for row in ids(3, 33)], input_ids="float32")
write("empty.mindrecord", [], input_ids="int32")
extremes = [np.array([0, -1, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 1, -2**31], np.int32)]
write("extreme.mindrecord", [{"input_ids": row} for row in extremes], input_ids="int32")
far = [np.array([2**31, -2**31 - 1, 2**63 - 1, -2**63, 5], np.int64), np.array([7], np.int64)]
write("far.mindrecord", [{"input_ids": row} for row in far], input_ids="int64")
writer = FileWriter("part.mindrecord", shard_num=3)
writer.add_schema({"input_ids": {"type": "int32", "shape": [-1]}}, "test")
writer.write_raw_data([{"input_ids": row} for row in ids(31, 33)])
writer.commit()
"""


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ready")
    subprocess.run([sys.executable, "-c", WRITE], cwd=folder, check=True, capture_output=True, timeout=500)
    return folder


def test_the_facts_of_ready_files(ready: Path) -> None:
    before = set(sys.modules)
    facts = inspect_mindrecord([f"{ready}/good.mindrecord"], (), 32, "shifted", heldout_files=[f"{ready}/held.mindrecord"], vocab_size=512)
    assert not {"mindspore", "numpy", "pyarrow"} & (set(sys.modules) - before), "a fraction of a second: nothing heavy is imported"
    assert (facts.train_rows, facts.heldout_rows, facts.train_tokens, facts.heldout_tokens) == (50, 5, 1600, 160)
    assert facts.columns == ("input_ids",) and facts.unigram_entropy is None and len(facts.fingerprint) == 32


def test_shards_are_found_by_a_glob_without_their_indices(ready: Path) -> None:
    facts = inspect_mindrecord([f"{ready}/part.mindrecord*"], (), 32, "shifted")
    assert [Path(path).name for path in facts.train_files] == ["part.mindrecord0", "part.mindrecord1", "part.mindrecord2"]
    assert facts.train_rows == 31


def test_labelled_files_over_many_pages(ready: Path) -> None:
    facts = inspect_mindrecord([f"{ready}/three.mindrecord"], (), 32, "labelled", vocab_size=512)
    assert facts.train_rows == 2000 and facts.columns == ("input_ids", "labels", "loss_mask")
    record = open_record(f"{ready}/three.mindrecord")
    rows = list(read_rows(record, facts.columns, range(2000)))
    assert all(row["labels"] == [value + 1 for value in row["input_ids"]] and row["loss_mask"] == [1.0] * 32 for row in rows)


def test_strings_beside_the_ids_do_not_disturb(ready: Path) -> None:
    assert inspect_mindrecord([f"{ready}/long.mindrecord"], (), 32, "shifted").train_rows == 3


def test_integers_of_every_width(ready: Path) -> None:
    extreme = [0, -1, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 1, -(2**31)]
    assert [row["input_ids"] for row in read_rows(open_record(f"{ready}/extreme.mindrecord"), ("input_ids",), [0])] == [extreme]
    far = [[2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 5], [7]]
    assert [row["input_ids"] for row in read_rows(open_record(f"{ready}/far.mindrecord"), ("input_ids",), range(2))] == far
    with pytest.raises(UserError, match="its index has no row 2"):
        list(read_rows(open_record(f"{ready}/far.mindrecord"), ("input_ids",), [2]))
    with pytest.raises(ValueError, match="do not fill"):
        _integers(b"\x00\x00\x00\x01\x00\x05\x06")


@pytest.mark.parametrize(
    ("name", "seq_length", "layout", "said", "mend"),
    [
        ("good", 33, "shifted", "samples have 33 ids, model.seq_length=33 needs 34", "model.seq_length=32"),
        ("three", 33, "labelled", "samples have 32 ids, model.seq_length=33 needs 33", "model.seq_length=32"),
        ("short", 32, "shifted", "samples have 20 ids, model.seq_length=32 needs 33", "model.seq_length=19"),
        (
            "good",
            32,
            "labelled",
            r"no array column labels, loss_mask; its columns: input_ids \(int32\)",
            "write it with the columns input_ids, labels, loss_mask",
        ),
        ("wide", 32, "shifted", r"id \d+ is outside the model's 0..511", "model.vocab_size="),
        ("float", 32, "shifted", "column input_ids of .* is float32, not integer", None),
        ("empty", 32, "shifted", "has no rows", None),
        ("absent", 32, "shifted", "there is no file", "nearest that exists"),
    ],
)
def test_what_does_not_fit_the_model_is_told(ready: Path, name: str, seq_length: int, layout: str, said: str, mend: str | None) -> None:
    with pytest.raises(UserError, match=said) as caught:
        inspect_mindrecord([f"{ready}/{name}.mindrecord"], (), seq_length, layout, vocab_size=512)
    assert caught.value.where is not None and name in caught.value.where
    assert (mend or "") in (caught.value.mend or "")


def test_a_column_that_is_asked_for_must_be_there(ready: Path) -> None:
    assert inspect_mindrecord([f"{ready}/three.mindrecord"], ["labels"], 32, "labelled").columns == ("labels",)
    with pytest.raises(UserError, match="no array column position_ids"):
        inspect_mindrecord([f"{ready}/three.mindrecord"], ["input_ids", "position_ids"], 32, "labelled")


def test_a_missing_index_is_told(ready: Path, tmp_path: Path) -> None:
    shutil.copy(ready / "good.mindrecord", tmp_path)
    with pytest.raises(UserError, match=r"good.mindrecord.db is missing") as caught:
        inspect_mindrecord([f"{tmp_path}/good.mindrecord"], (), 32, "shifted")
    assert "copy the .db" in str(caught.value.mend)


def test_a_renamed_pair_is_read(ready: Path, tmp_path: Path) -> None:
    for ending in ("", ".db"):
        shutil.copy(ready / f"good.mindrecord{ending}", tmp_path / f"new #1?.mindrecord{ending}")
    assert inspect_mindrecord([f"{tmp_path}/new #1?.mindrecord"], (), 32, "shifted").train_rows == 50


@pytest.mark.parametrize(
    ("size", "said"), [(4, "no MindRecord header"), (200, "no MindRecord header"), ((16 << 20) + 100, "row 1: the file is cut short")]
)
def test_a_torn_file_is_told(ready: Path, tmp_path: Path, size: int, said: str) -> None:
    shutil.copy(ready / "good.mindrecord.db", tmp_path)
    (tmp_path / "good.mindrecord").write_bytes((ready / "good.mindrecord").read_bytes()[:size])
    with pytest.raises(UserError, match=f"cannot be read as MindRecord: {said}"):
        inspect_mindrecord([f"{tmp_path}/good.mindrecord"], (), 32, "shifted")


def test_a_torn_index_is_told(ready: Path, tmp_path: Path) -> None:
    shutil.copy(ready / "good.mindrecord", tmp_path)
    (tmp_path / "good.mindrecord.db").write_text("no database at all" * 10)
    with pytest.raises(UserError, match="its index"):
        inspect_mindrecord([f"{tmp_path}/good.mindrecord"], (), 32, "shifted")


@pytest.mark.parametrize("text", ["plain text, and long enough for a header length", "\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_another_kind_of_file_is_told(ready: Path, tmp_path: Path, text: str) -> None:
    shutil.copy(ready / "good.mindrecord.db", tmp_path / "other.mindrecord.db")
    (tmp_path / "other.mindrecord").write_text(text)
    with pytest.raises(UserError, match="no MindRecord header"):
        inspect_mindrecord([f"{tmp_path}/other.mindrecord"], (), 32, "shifted")


def test_other_names_and_nothing_at_all(ready: Path, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_text("x")
    with pytest.raises(UserError, match=r"is not called \*\.mindrecord"):
        inspect_mindrecord([f"{tmp_path}/data.bin"], (), 32, "shifted")
    with pytest.raises(UserError, match="needs files"):
        inspect_mindrecord([], (), 32, "shifted")
    with pytest.raises(UserError, match=r"only \.db indices match"):
        inspect_mindrecord([f"{ready}/good.mindrecord.db"], (), 32, "shifted")
    with pytest.raises(UserError, match=r"every file of dataset\.files is held out"):
        inspect_mindrecord([f"{ready}/good.mindrecord"], (), 32, "shifted", heldout_files=[f"{ready}/good.mindrecord"])


def test_the_fingerprint_follows_the_content(ready: Path, tmp_path: Path) -> None:
    names = ("good", "held", "part")
    found = {name: inspect_mindrecord([f"{ready}/{name}.mindrecord*"], (), 32, "shifted").fingerprint for name in names}
    assert len(set(found.values())) == 3
    for ending in ("", ".db"):
        shutil.copy(ready / f"good.mindrecord{ending}", tmp_path)
    copy = [f"{tmp_path}/good.mindrecord"]
    assert inspect_mindrecord(copy, (), 32, "shifted").fingerprint == found["good"]
    with open(copy[0], "r+b") as file:
        file.seek((16 << 20) + 1000)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    assert inspect_mindrecord(copy, (), 32, "shifted").fingerprint != found["good"]
