from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from corpora import make_spec, write_jsonl, write_texts

from mindrecipe.data import api, digests
from mindrecipe.data.cache import ensure_writable, locked, publish, read_entry, remove_leftovers, working_folder
from mindrecipe.data.digests import digests_of, sha256_of
from mindrecipe.data.sources import stat_files
from mindrecipe.data.spec import DataFacts, DataSpec
from mindrecipe.errors import UserError

FACTS = DataFacts(
    train_files=("train-00000.mindrecord",), heldout_files=("heldout-00000.mindrecord",), columns=("input_ids",), train_rows=3,
    heldout_rows=1, train_tokens=96, heldout_tokens=32, unigram_entropy=1.5, fingerprint="", tokenizer="tokenizer.json",
)  # fmt: skip
KEY = "0" * 32
SOURCE = str(Path(__file__).parents[2] / "src")


def fill(folder: Path, mark: str = "x") -> None:
    for name in ("train-00000.mindrecord", "heldout-00000.mindrecord", "tokenizer.json"):
        (folder / name).write_text(mark)


def put(cache: Path, spec: DataSpec, mark: str = "x") -> None:
    with working_folder(str(cache), KEY) as folder:
        fill(folder, mark)
        publish(str(cache), KEY, folder, FACTS, spec)


def text_spec(tmp_path: Path, cache: Path) -> DataSpec:
    return make_spec(cache, files=tuple(write_texts(tmp_path / "data", 20)))


def test_an_entry_is_found_with_absolute_paths(cache: Path) -> None:
    assert read_entry(str(cache), KEY) is None
    put(cache, make_spec(cache))
    folder = cache / KEY
    assert read_entry(str(cache), KEY) == replace(
        FACTS, train_files=(str(folder / "train-00000.mindrecord"),), heldout_files=(str(folder / "heldout-00000.mindrecord"),),
        tokenizer=str(folder / "tokenizer.json"), fingerprint=KEY,
    )  # fmt: skip
    assert sorted(path.name for path in cache.iterdir()) == [KEY]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("longer")])
def test_a_damaged_entry_is_no_entry_and_is_replaced(cache: Path, damage: object) -> None:
    put(cache, make_spec(cache))
    damage(cache / KEY / "train-00000.mindrecord")  # type: ignore[operator]
    assert read_entry(str(cache), KEY) is None
    put(cache, make_spec(cache), mark="y")
    assert read_entry(str(cache), KEY) is not None and (cache / KEY / "tokenizer.json").read_text() == "y"


def test_the_second_of_two_builders_keeps_the_first_ones(cache: Path) -> None:
    put(cache, make_spec(cache), mark="first")
    put(cache, make_spec(cache), mark="other")
    assert (cache / KEY / "tokenizer.json").read_text() == "first"
    assert sorted(path.name for path in cache.iterdir()) == [KEY]


def test_an_unfinished_entry_is_never_seen(cache: Path) -> None:
    with pytest.raises(RuntimeError), working_folder(str(cache), KEY) as folder:
        fill(folder)
        assert read_entry(str(cache), KEY) is None and not (cache / KEY).exists()
        raise RuntimeError("half-way")
    assert list(cache.iterdir()) == []


def test_a_builder_that_was_stopped_as_it_made_its_folder_leaves_none(cache: Path) -> None:
    """It ends by itself, and has not come to what removes the folder; another host's builder of the same number keeps its own."""
    other = "2" * 32
    made = f"import os, sys; os.mkdir(f'{KEY}.building-{{os.getpid()}}-x'); os.mkdir(f'{other}.building-{{os.getpid()}}-y'); sys.exit(143)"
    with locked(str(cache), other, lambda: None):
        process = subprocess.Popen([sys.executable, "-c", made], cwd=cache, text=True, stdout=subprocess.PIPE)
        process.wait()
        api._stop(process, str(cache))
        assert [folder.name for folder in cache.glob("*.building-*")] == [f"{other}.building-{process.pid}-y"]


def test_leftovers_go_unless_their_builder_lives(cache: Path) -> None:
    mine, dead, living = (cache / f"{digit * 32}.building-abc" for digit in "123")
    for folder in (mine, dead, living):
        folder.mkdir()
        fill(folder)
    with locked(str(cache), "3" * 32, lambda: None), locked(str(cache), "1" * 32, lambda: None):
        remove_leftovers(str(cache), "1" * 32)
    assert not mine.exists() and not dead.exists() and living.exists()


HOLD = """
import sys, time
from mindrecipe.data.cache import locked
with locked(sys.argv[1], sys.argv[2], lambda: None):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_makes_others_wait_and_dies_with_its_process(cache: Path) -> None:
    env = {**os.environ, "PYTHONPATH": SOURCE}
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(cache), KEY], stdout=subprocess.PIPE, env=env)
    assert holder.stdout is not None and holder.stdout.readline()
    waits = []

    def on_wait() -> None:
        waits.append(time.monotonic())
        if len(waits) == 2:
            holder.kill()

    with locked(str(cache), KEY, on_wait):
        assert len(waits) >= 2
    holder.wait()
    holder.stdout.close()


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written") as caught:
        ensure_writable(str(tmp_path / "file" / "cache"))
    assert "MINDRECIPE_CACHE" in str(caught.value.mend)


def test_the_key_is_of_content_and_not_of_places(tmp_path: Path, cache: Path) -> None:
    spec = text_spec(tmp_path, cache)
    key = api.cache_key(spec)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").rename(tmp_path / "elsewhere" / "data")
    moved = replace(spec, files=tuple(path.replace("/data/", "/elsewhere/data/") for path in spec.files), cache_dir=str(tmp_path / "other"))
    assert api.cache_key(moved) == key


@pytest.mark.parametrize(
    "change",
    [{"seq_length": 33}, {"layout": "labelled"}, {"vocab_size": 600}, {"eos_token_id": 3}, {"pad_token_id": -1}, {"tokenizer": "bpe"},
     {"heldout_fraction": 0.5}],
)  # fmt: skip
def test_the_key_is_of_the_spec(tmp_path: Path, cache: Path, change: dict[str, object]) -> None:
    spec = text_spec(tmp_path, cache)
    assert api.cache_key(replace(spec, **change)) != api.cache_key(spec)  # type: ignore[arg-type]


def test_the_key_changes_with_a_byte(tmp_path: Path, cache: Path) -> None:
    spec = text_spec(tmp_path, cache)
    key = api.cache_key(spec)
    path = Path(spec.files[7])
    stamp = path.stat()
    path.write_bytes(path.read_bytes()[:-2] + b"!\n")
    assert path.stat().st_size == stamp.st_size
    assert api.cache_key(spec) != key


def test_a_tokenizer_file_is_part_of_the_key_by_its_content(tmp_path: Path, cache: Path) -> None:
    spec = text_spec(tmp_path, cache)
    one, same, other = (tmp_path / f"{name}.json" for name in ("one", "same", "other"))
    one.write_text('{"model": {"vocab": {"a": 0}}}')
    same.write_text('{"model": {"vocab": {"a": 0}}}')
    other.write_text('{"model": {"vocab": {"a": 0, "b": 1}}}')
    keys = [api.cache_key(replace(spec, tokenizer=str(path))) for path in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]


def test_a_large_file_is_read_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(write_jsonl(tmp_path / "a.jsonl", ["text"] * 100))
    old = path.stat().st_mtime - 100
    os.utime(path, (old, old))
    read: list[str] = []
    monkeypatch.setattr(digests, "sha256_of", lambda name, on_bytes=None: read.append(name) or sha256_of(name))
    first = digests_of(stat_files([str(path)]), str(cache))
    assert digests_of(stat_files([str(path)]), str(cache)) == first and read == [str(path)]
    with open(path, "a") as file:
        file.write('{"text": "more"}\n')
    os.utime(path, (old + 1, old + 1))
    assert digests_of(stat_files([str(path)]), str(cache)) != first and len(read) == 2


def test_a_file_of_this_moment_is_not_remembered(tmp_path: Path, cache: Path) -> None:
    files = stat_files([write_jsonl(tmp_path / "a.jsonl", ["text"])])
    digests_of(files, str(cache))
    assert [json.loads(memo.read_text()) for memo in (cache / "digests").glob("*.json")] in ([], [{}])


def test_a_torn_memo_is_as_good_as_none(tmp_path: Path, cache: Path) -> None:
    path = Path(write_jsonl(tmp_path / "a.jsonl", ["text"]))
    os.utime(path, (1, 1))
    first = digests_of(stat_files([str(path)]), str(cache))
    (memo,) = (cache / "digests").glob("*.json")
    memo.write_text('{"a": [1')
    assert digests_of(stat_files([str(path)]), str(cache)) == first


def test_hashing_reports_how_far_it_is(tmp_path: Path, cache: Path) -> None:
    files = stat_files(write_texts(tmp_path / "data", 3))
    seen: list[tuple[int, int]] = []
    digests_of(files, str(cache), lambda read, total: seen.append((read, total)))
    total = sum(file.size for file in files)
    assert seen[-1] == (total, total) and seen == sorted(seen) and len(seen) == 3


def test_a_disk_too_small_is_told_before_building(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = text_spec(tmp_path, cache)
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr(api.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(UserError, match=r"needs about 0\.0 GiB .* 0\.0 GiB are free") as caught:
        api.check(spec)
    assert "dataset.cache_dir" in str(caught.value.mend)


def test_check_finds_all_kinds_of_faults_and_passes_what_is_right(tmp_path: Path, cache: Path) -> None:
    spec = text_spec(tmp_path, cache)
    api.check(spec)
    faults = [({"vocab_size": 100}, "ids up to 258"), ({"files": ("/no.txt",)}, "no file"), ({"cache_dir": spec.files[0]}, "written")]
    for change, said in faults:
        with pytest.raises(UserError, match=said):
            api.check(replace(spec, **change))  # type: ignore[arg-type]


def test_the_launcher_side_imports_nothing_heavy() -> None:
    code = (
        "import sys, mindrecipe.data.api\n"
        "print([name for name in ('mindspore', 'mindformers', 'numpy', 'tokenizers', 'pyarrow', 'hydra') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SOURCE})
    assert out.stdout.strip() == "[]"
