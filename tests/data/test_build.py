"""The builder for real: mindspore writes, mindspore reads back. Each run costs a few seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import make_spec, prose, read_back, write_jsonl, write_texts

from mindrecipe.data import api
from mindrecipe.data.mindrecord import RowWriter, page_bytes
from mindrecipe.data.progress import PHASES, Progress
from mindrecipe.data.recordfile import open_record, read_rows
from mindrecipe.data.spec import DataFacts, DataSpec
from mindrecipe.data.split import find_corpus
from mindrecipe.data.tokenizer import ByteEncoder
from mindrecipe.errors import UserError

pytestmark = pytest.mark.e2e
SOURCE = str(Path(__file__).parents[2] / "src")
BUILDER = [sys.executable, "-m", "mindrecipe.data.build"]
ENV = {**os.environ, "PYTHONPATH": SOURCE, "GLOG_v": "3"}


def ignore(progress: Progress) -> None:
    assert progress.phase in PHASES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="module")
def spec(folder: Path) -> DataSpec:
    (folder / "cache").mkdir()
    return make_spec(folder / "cache", files=tuple(write_texts(folder / "data", 20, lines=80)), tokenizer="bpe")


@pytest.fixture(scope="module")
def shifted(spec: DataSpec) -> DataFacts:
    seen: list[Progress] = []
    facts = api.build(spec, seen.append)
    phases = [progress.phase for progress in seen]
    assert phases == sorted(phases, key=PHASES.index) and {"tokenizer", "rows", "index"} <= set(phases)
    assert all(0 <= progress.done <= progress.total for progress in seen) and seen[-1].tokens > 0
    return facts


@pytest.fixture(scope="module")
def labelled(spec: DataSpec) -> DataFacts:
    return api.build(replace(spec, layout="labelled"), ignore)


def expected_stream(spec: DataSpec, facts: DataFacts, held_out: bool) -> list[int]:
    """All ids of a side, tokenized file by file with the library's plainest call."""
    from tokenizers import Tokenizer

    assert facts.tokenizer is not None
    tokenizer = Tokenizer.from_file(facts.tokenizer)
    tokenizer.encode_special_tokens = True
    corpus = find_corpus(spec, look_inside=False)
    stream: list[int] = []
    for file in corpus.heldout if held_out else corpus.train:
        stream += [*tokenizer.encode(Path(file.path).read_text(encoding="utf-8"), add_special_tokens=False).ids, spec.eos_token_id]
    return stream


@pytest.mark.parametrize("held_out", [False, True])
def test_shifted_rows_are_the_text_in_order(spec: DataSpec, shifted: DataFacts, tmp_path: Path, held_out: bool) -> None:
    stream, length = expected_stream(spec, shifted, held_out), spec.seq_length
    rows = read_back(shifted.heldout_files if held_out else shifted.train_files, tmp_path)
    assert set(rows) == {"input_ids"} and rows["input_ids"].dtype == np.int32
    count = (len(stream) - 1) // length
    assert rows["input_ids"].tolist() == [stream[start : start + length + 1] for start in range(0, count * length, length)]
    assert (shifted.heldout_rows if held_out else shifted.train_rows) == count > 10
    assert (shifted.heldout_tokens if held_out else shifted.train_tokens) == count * length


@pytest.mark.parametrize("held_out", [False, True])
def test_labelled_rows_predict_every_id_once(spec: DataSpec, labelled: DataFacts, tmp_path: Path, held_out: bool) -> None:
    stream, length = expected_stream(spec, labelled, held_out), spec.seq_length
    rows = read_back(labelled.heldout_files if held_out else labelled.train_files, tmp_path)
    assert labelled.columns == ("input_ids", "labels", "loss_mask") and set(rows) == set(labelled.columns)
    assert all(values.dtype == np.int32 and values.shape[1] == length for values in rows.values())
    mask = rows["loss_mask"].astype(bool)
    assert rows["labels"][mask].tolist() == stream[1:] and rows["input_ids"][mask].tolist() == stream[:-1]
    assert not rows["labels"][~mask].any() and not mask[-1].all() and mask[:-1].all()
    assert (labelled.heldout_tokens if held_out else labelled.train_tokens) == len(stream) - 1


def test_both_layouts_share_one_tokenizer(spec: DataSpec, shifted: DataFacts, labelled: DataFacts) -> None:
    assert len(list(Path(spec.cache_dir, "tokenizers").iterdir())) == 1
    assert Path(str(shifted.tokenizer)).read_bytes() == Path(str(labelled.tokenizer)).read_bytes()


def test_the_entropy_is_that_of_the_rows(spec: DataSpec, shifted: DataFacts, tmp_path: Path) -> None:
    train = read_back(shifted.train_files, tmp_path)["input_ids"][:, 1:].ravel()
    heldout = read_back(shifted.heldout_files, tmp_path)["input_ids"][:, 1:].ravel()
    counts = np.bincount(train, minlength=spec.vocab_size) + 1
    assert shifted.unigram_entropy == pytest.approx(-np.log(counts / counts.sum())[heldout].mean())


def test_files_are_small_readable_by_others_and_found_again(spec: DataSpec, shifted: DataFacts) -> None:
    files = [Path(path) for path in (*shifted.train_files, *shifted.heldout_files)]
    assert all(path.stat().st_size < 3 << 20 and path.stat().st_mode & 0o777 == 0o644 for path in files)
    assert api.lookup(spec) == shifted and shifted.fingerprint == api.cache_key(spec)
    assert api.build(spec, ignore) == shifted


@pytest.mark.parametrize("layout", ["shifted", "labelled"])
def test_the_launcher_reads_what_mindspore_wrote(request: pytest.FixtureRequest, spec: DataSpec, layout: str, tmp_path: Path) -> None:
    facts: DataFacts = request.getfixturevalue(layout)
    record, rows = open_record(facts.train_files[0]), read_back(facts.train_files, tmp_path)
    assert record.rows == facts.train_rows and record.columns == dict.fromkeys(facts.columns, "int32")
    for number, row in enumerate(read_rows(record, facts.columns, range(record.rows))):
        assert row == {name: rows[name][number].tolist() for name in facts.columns}


def test_ready_files_are_taken_as_they_are(spec: DataSpec, shifted: DataFacts) -> None:
    ready = replace(spec, source="mindrecord", files=shifted.train_files, heldout_files=shifted.heldout_files)
    facts = api.prepare(ready, ignore)
    assert (facts.train_rows, facts.heldout_rows, facts.columns) == (shifted.train_rows, shifted.heldout_rows, ("input_ids",))
    assert facts.train_files == shifted.train_files and facts.unigram_entropy is None


def test_jsonl_and_parquet_with_bytes_round_trip(tmp_path: Path, cache: Path) -> None:
    texts = [prose(number, 8) for number in range(120)]
    jsonl = write_jsonl(tmp_path / "a.jsonl", texts[:60], field="body")
    pq.write_table(pa.table({"body": texts[60:]}), tmp_path / "b.parquet")
    spec = make_spec(cache, files=(jsonl, str(tmp_path / "b.parquet")), text_field="body", layout="labelled", seq_length=100)
    facts = api.build(spec, ignore)
    found: list[list[str]] = []
    for files in (facts.train_files, facts.heldout_files):
        rows = read_back(files, tmp_path)
        ids = np.concatenate([rows["input_ids"][0, :1], rows["labels"][rows["loss_mask"] == 1]])
        parts = np.split(ids, np.flatnonzero(ids == spec.eos_token_id) + 1)
        assert len(parts[-1]) == 0
        found.append([ByteEncoder(spec).decode(part).decode() for part in parts[:-1]])
    assert len(found[1]) > 2 and not set(found[0]) & set(found[1])
    assert sorted(found[0] + found[1]) == sorted(texts) and facts.tokenizer is None


def test_the_standard_library_by_default(tmp_path: Path, cache: Path) -> None:
    spec = make_spec(cache, source="stdlib", tokenizer="bpe", seq_length=128)
    facts = api.prepare(spec, ignore)
    assert facts.train_tokens > 1_000_000 and 0.05 < facts.heldout_tokens / facts.train_tokens < 0.25
    assert 3.0 < float(facts.unigram_entropy or 0) < np.log(512)
    rows = read_back(facts.train_files, tmp_path)["input_ids"]
    assert rows.shape == (facts.train_rows, 129) and rows.min() >= 2 and rows.max() < 512


def start(spec: DataSpec, scratch: Path) -> subprocess.Popen[str]:
    path = scratch / "spec.json"
    path.write_text(json.dumps(asdict(spec)))
    return subprocess.Popen([*BUILDER, str(path)], env=ENV, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_builds_at_once_build_once(tmp_path: Path, cache: Path) -> None:
    spec = make_spec(cache, files=tuple(write_texts(tmp_path / "data", 20, lines=400)), tokenizer="bpe")
    builders = [start(spec, tmp_path) for _ in range(2)]
    said = [builder.communicate(timeout=500) for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0], said
    lines = [[json.loads(line) for line in out.splitlines()] for out, _ in said]
    assert {found[-1]["key"] for found in lines} == {api.cache_key(spec)}
    built = [any(line.get("progress", {}).get("phase") == "rows" for line in found) for found in lines]
    assert sorted(built) == [False, True], "one builds, the other waits and takes it"
    assert [path.name for path in cache.iterdir() if len(path.name) >= 32] == [api.cache_key(spec)]
    assert api.lookup(spec) is not None


def wait_for_rows(builder: subprocess.Popen[str]) -> None:
    assert builder.stdout is not None
    for line in builder.stdout:
        if json.loads(line).get("progress", {}).get("phase") == "rows":
            return
    raise AssertionError("the builder ended before it wrote rows")


def large_spec(tmp_path: Path, cache: Path) -> DataSpec:
    path = tmp_path / "large.txt"
    with open(path, "w", encoding="utf-8") as file:
        for number in range(40):
            file.write(prose(number, 400) * 10)
    return make_spec(cache, files=(str(path),), seq_length=16)


def test_a_killed_builder_leaves_nothing_that_is_used(tmp_path: Path, cache: Path) -> None:
    spec = large_spec(tmp_path, cache)
    builder = start(spec, tmp_path)
    wait_for_rows(builder)
    (helper,) = [child for child in psutil.Process(builder.pid).children() if "mindrecipe.data.encode" in child.cmdline()]
    builder.kill()
    builder.communicate()
    assert psutil.wait_procs([helper], timeout=200)[1] == [], "what tokenizes for it ends too"
    assert builder.returncode == -signal.SIGKILL and api.lookup(spec) is None
    assert len(list(cache.glob("*.building-*"))) == 1
    facts = api.build(spec, ignore)
    assert facts.train_rows > 1000 and not list(cache.glob("*.building-*"))


def test_ctrl_c_ends_the_builder(tmp_path: Path, cache: Path) -> None:
    spec = large_spec(tmp_path, cache)

    def interrupt(progress: Progress) -> None:
        if progress.phase == "rows":
            raise KeyboardInterrupt

    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(KeyboardInterrupt):
        api.build(spec, interrupt)
    assert api.lookup(spec) is None and not list(cache.glob("*.building-*"))
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_tokenizing_process_that_dies_is_our_fault(tmp_path: Path, cache: Path) -> None:
    def kill_it(progress: Progress) -> None:
        if progress.phase == "rows":
            for process in psutil.Process().children(recursive=True):
                if "mindrecipe.data.encode" in process.cmdline():
                    process.kill()

    with pytest.raises(RuntimeError, match="the tokenizing process died"):
        api.build(large_spec(tmp_path, cache), kill_it)
    assert not list(cache.glob("*.building-*"))


def test_a_fault_deep_in_a_file_is_the_users_fault(tmp_path: Path, cache: Path) -> None:
    path = Path(write_jsonl(tmp_path / "a.jsonl", ["x" * 100_000] * 60))
    with open(path, "a") as file:
        file.write('{"text": oops}\n')
    with pytest.raises(UserError, match="invalid JSON") as caught:
        api.build(make_spec(cache, files=(str(path),)), ignore)
    assert caught.value.where == f"{path}:61" and not list(cache.glob("*.building-*"))


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["", " ", None], "no text in the files"),
        (["a few words", "and others"], "the train split has"),
        (["word " * 200] * 3, "the heldout split has 0 tokens"),
    ],
)
def test_too_little_text_is_told(tmp_path: Path, cache: Path, texts: list[str | None], said: str) -> None:
    with pytest.raises(UserError, match=said):
        api.build(make_spec(cache, files=(write_jsonl(tmp_path / "a.jsonl", texts),), seq_length=64), ignore)


def test_our_own_fault_keeps_its_traceback(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken" / "mindspore").mkdir(parents=True)
    (tmp_path / "broken" / "mindspore" / "__init__.py").write_text("raise ImportError('libfoo.so is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    spec = make_spec(cache, files=tuple(write_texts(tmp_path / "data", 20)))
    with pytest.raises(RuntimeError, match=r"failed with exit code 1(.|\n)*libfoo\.so is missing"):
        api.build(spec, ignore)
    assert api.lookup(spec) is None and not list(cache.glob("*.building-*"))


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, cache: Path) -> None:
    spec = large_spec(tmp_path, cache)

    def append(progress: Progress) -> None:
        if progress.phase == "rows":
            os.utime(spec.files[0], (1, 1))

    with pytest.raises(UserError, match="changed while it was read"):
        api.build(spec, append)
    assert not list(cache.glob("*.building-*"))


def test_many_rows_go_into_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindrecipe.data.mindrecord.FILE_BYTES", 33 * 4 * 100)
    rng = np.random.default_rng(0)
    rows = rng.integers(-(2**31), 2**31, (250, 33)).astype(np.int32)
    writer = RowWriter(tmp_path, "train", "shifted", 32)
    for start_row in range(0, 250, 70):
        writer.write(rows[start_row : start_row + 70])
    writer.close()
    assert writer.rows == 250 and [open_record(str(path)).rows for path in writer.files] == [100, 100, 50]
    assert np.array_equal(read_back(tuple(map(str, writer.files)), tmp_path)["input_ids"], rows)
    records = [open_record(str(path)) for path in writer.files]
    found = [row["input_ids"] for record in records for row in read_rows(record, ("input_ids",), range(record.rows))]
    assert found == rows.tolist()


@pytest.mark.parametrize("layout", ["shifted", "labelled"])
def test_long_rows_fit_their_pages(tmp_path: Path, layout: str) -> None:
    length = 40_000
    rows = np.random.default_rng(0).integers(0, 2**31, (9, length + 1)).astype(np.int32)
    writer = RowWriter(tmp_path, "train", layout, length)
    writer.write(rows)
    writer.close()
    found = read_back(tuple(map(str, writer.files)), tmp_path)
    assert np.array_equal(found["input_ids"], rows if layout == "shifted" else rows[:, :-1])
    if layout == "labelled":
        assert np.array_equal(found["labels"], rows[:, 1:]) and found["loss_mask"].all()


def test_a_page_holds_rows_and_has_its_bounds() -> None:
    assert page_bytes(100) == 1 << 18 and page_bytes(1 << 18) == 1 << 20
    with pytest.raises(ValueError, match="too long for a MindRecord page"):
        page_bytes(1 << 27)
