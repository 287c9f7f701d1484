from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import prose, write_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from mindrecipe.data import texts
from mindrecipe.data.sources import stat_files
from mindrecipe.data.texts import read_blocks, read_jsonl, read_parquet, text_bytes
from mindrecipe.errors import UserError


@settings(max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), block=st.integers(1, 50))
def test_blocks_join_to_the_file(tmp_path_factory: pytest.TempPathFactory, text: str, block: int) -> None:
    path = tmp_path_factory.mktemp("blocks") / "a.txt"
    path.write_bytes(text.encode())
    blocks = list(read_blocks(str(path), block))
    assert "".join(blocks) == text.removeprefix("\ufeff")
    assert all(part.endswith("\n") for part in blocks[:-1])


def test_an_endless_line_is_cut_between_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "LONGEST_UNBROKEN", 64)
    text = "é数😀" * 200
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    blocks = list(read_blocks(str(path), 50))
    assert "".join(blocks) == text and len(blocks) > 10


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfhello\n")
    assert list(read_blocks(str(path))) == ["hello\n"]


def test_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb\rc\n")
    assert list(read_blocks(str(path))) == ["a\r\nb\rc\n"]


@pytest.mark.parametrize("block", [7, 1 << 16])
def test_what_is_not_utf8_is_told_with_its_line(tmp_path: Path, block: int) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nthr\xe9e\nfour\n")
    with pytest.raises(UserError, match="not UTF-8 text: byte 0xe9 in line 3") as caught:
        list(read_blocks(str(path), block))
    assert caught.value.where == f"{path}:3" and "iconv" in str(caught.value.mend)


def test_jsonl_gives_its_texts_and_passes_over_blank_ones(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ["one", "", None, " \n", "数据 two\n"])
    with open(path, "a") as file:
        file.write("\n  \n")
    assert list(read_jsonl(path, "text")) == ["one", "数据 two\n"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "a"', "invalid JSON: .* at column"),
        ('["a"]', "must be a JSON object, this is list"),
        ('{"content": "a"}', "no field 'text'; its fields: content"),
        ('{"text": 5}', "'text' is int, not text"),
        ('{"text": "\\ud800"}', "not UTF-8"),
        ('{"text": "\xff"}', "not UTF-8|invalid"),
    ],
)
def test_faults_of_a_line_are_told_with_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "fine"}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(UserError, match=said) as caught:
        list(read_jsonl(str(path), "text"))
    assert caught.value.where == f"{path}:2"


def test_the_only_other_field_is_the_mend(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"content": "a"}\n')
    with pytest.raises(UserError) as caught:
        list(read_jsonl(str(path), "text"))
    assert caught.value.mend == "dataset.text_field=content"


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "LONGEST_LINE", 1 << 10)
    path = write_jsonl(tmp_path / "a.jsonl", ["short", "x" * 2000])
    with pytest.raises(UserError, match="line 2 is longer") as caught:
        list(read_jsonl(path, "text"))
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_gives_its_column(tmp_path: Path, kind: pa.DataType) -> None:
    path = str(tmp_path / "a.parquet")
    values = [prose(number, 5) for number in range(300)]
    column = pa.array([*values[:100], None, "", *values[100:]], pa.string()).cast(kind)
    pq.write_table(pa.table({"n": list(range(302)), "body": column}), path, row_group_size=50)
    assert list(read_parquet(path, "body")) == values


def test_parquet_text_is_counted_uncompressed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = [f"{number} " + "x" * 5000 for number in range(100)]
    pq.write_table(pa.table({"text": values, "other": ["y" * 9000] * 100}), path, use_dictionary=False)
    (file,) = stat_files([str(path)])
    assert file.size < 100_000 and text_bytes(file, "text") == pytest.approx(500_000, rel=0.05)


@pytest.mark.parametrize(("field", "said"), [("text", "no column 'text'; its columns: n, body"), ("n", "'n' is int64, not string")])
def test_parquet_columns_are_checked(tmp_path: Path, field: str, said: str) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1], "body": ["a"]}), path)
    with pytest.raises(UserError, match=said):
        list(read_parquet(path, field))


def test_what_is_no_parquet_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("not at all")
    with pytest.raises(UserError, match="the file is no Parquet, or damaged"):
        list(read_parquet(str(path), "text"))


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_parquet_column_that_is_not_utf8_is_told_with_its_row_group(tmp_path: Path, kind: pa.DataType) -> None:
    path = str(tmp_path / "a.parquet")
    words = [b"fine %d" % number for number in range(130)]
    words[107] = b"caf\xe9"
    table = pa.table({"text": pa.array(words, pa.binary()).view(pa.string())})
    pq.write_table(table if kind == pa.string() else pa.table({"text": table["text"].dictionary_encode()}), path, row_group_size=50)
    with pytest.raises(UserError, match="row group 2 .rows 100 to 129.: text that is not UTF-8: byte 0xe9") as caught:
        list(read_parquet(path, "text"))
    assert caught.value.where == path and "UTF-8" in str(caught.value.mend)


def test_a_damaged_page_of_parquet_is_told_with_its_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [prose(number, 40) for number in range(150)]}), path, row_group_size=50)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(UserError, match="row group 1 .rows 50 to 99.: it can't be read") as caught:
        list(read_parquet(str(path), "text"))
    assert caught.value.where == str(path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    pq.write_table(pa.table({"n": list(range(60)), "text": [prose(number, 9) + "é数" for number in range(60)]}), path, row_group_size=20)
    return path


@settings(max_examples=150)
@given(changes=st.dictionaries(st.integers(0, 1 << 13), st.integers(0, 255), min_size=1, max_size=4))
def test_bytes_of_a_parquet_file_that_have_changed_give_text_or_one_message(sound: Path, changes: dict[int, int]) -> None:
    content = bytearray(sound.read_bytes())
    for place, value in changes.items():
        content[place % len(content)] = value
    damaged = sound.with_name("damaged.parquet")
    damaged.write_bytes(content)
    (file,) = stat_files([str(damaged)])
    try:
        assert text_bytes(file, "text") >= 0 and all(read_parquet(str(damaged), "text"))
    except UserError as fault:
        assert str(damaged) in f"{fault.what} {fault.where}" and "\n" not in fault.what
