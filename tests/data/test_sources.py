from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import make_spec, write_jsonl, write_texts

from mindrecipe.data.sources import expand, find_text_files, stat_files
from mindrecipe.data.split import find_corpus
from mindrecipe.data.stdlib import LEFT_OUT, stdlib_files, stdlib_root
from mindrecipe.errors import UserError


def test_globs_go_deep_and_each_file_comes_once(tmp_path: Path) -> None:
    write_texts(tmp_path / "a" / "b", 2)
    write_texts(tmp_path / "a", 1)
    (tmp_path / "a" / "link.txt").symlink_to(tmp_path / "a" / "part000.txt")
    found = expand([f"{tmp_path}/**/*.txt", f"{tmp_path}/a/part000.txt"], "dataset.files")
    names = [os.path.relpath(path, tmp_path) for path in found]
    assert len(names) == 3 and {os.path.realpath(path) for path in found} == {
        str(tmp_path / "a" / "part000.txt"), str(tmp_path / "a" / "b" / "part000.txt"), str(tmp_path / "a" / "b" / "part001.txt"),
    }  # fmt: skip


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    odd = tmp_path / "draft[1].txt"
    odd.write_text("text\n")
    assert expand([str(odd)], "dataset.files") == [str(odd)]


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    write_texts(tmp_path, 2)
    with pytest.raises(UserError) as caught:
        find_text_files([f"{tmp_path}/prat000.txt"])
    assert "there is no file" in caught.value.what and f"{tmp_path}/part000.txt" in str(caught.value.mend)
    assert caught.value.where == f"dataset.files={tmp_path}/prat000.txt"


def test_a_missing_folder_is_told_with_the_nearest_that_exists(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_text_files([f"{tmp_path}/no/such/*.txt"])
    assert "no file matches" in caught.value.what and str(tmp_path) in str(caught.value.mend)


@pytest.mark.parametrize(
    ("name", "said", "mend"),
    [("a.csv", "ends in .csv", "ln -s a.csv"), ("a.json", "ends in .json", ".jsonl"), ("a.mindrecord", "ends in .mindrecord", "dataset=mindrecord"),
     ("noending", "ends in nothing", "noending.txt")],
)  # fmt: skip
def test_other_endings_are_refused(tmp_path: Path, name: str, said: str, mend: str | None) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=said) as caught:
        find_text_files([str(tmp_path / name)])
    assert (mend is None) == (caught.value.mend is None) and (mend or "") in (caught.value.mend or "")


def test_a_folder_is_refused_with_the_glob_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder") as caught:
        find_text_files([str(tmp_path)])
    assert f"{tmp_path}/**/*.txt" in str(caught.value.mend)


def test_no_files_at_all(cache: Path) -> None:
    with pytest.raises(UserError, match="needs files"):
        find_corpus(make_spec(cache), look_inside=True)


def test_empty_files_are_named(tmp_path: Path) -> None:
    paths = write_texts(tmp_path, 3)
    for path in paths[1:]:
        Path(path).write_text("")
    with pytest.raises(UserError, match=r"files are empty: .*part001\.txt, .*part002\.txt"):
        stat_files(paths)


def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match="not a regular file"):
        stat_files([str(tmp_path / "pipe.txt")])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (path,) = write_texts(tmp_path, 1)
    os.chmod(path, 0)
    with pytest.raises(UserError, match="permission denied"):
        stat_files([path])


def test_an_unreadable_file_is_refused_for_root_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write_texts(tmp_path, 1)
    monkeypatch.setattr(os, "access", lambda name, mode: False)
    with pytest.raises(UserError, match="permission denied"):
        stat_files([path])


def test_names_are_relative_to_the_folder_all_files_share(tmp_path: Path) -> None:
    paths = write_texts(tmp_path / "a", 1) + write_texts(tmp_path / "b", 1)
    assert [file.name for file in stat_files(paths)] == ["a/part000.txt", "b/part000.txt"]


def test_the_standard_library_is_ordered_complete_and_without_tests() -> None:
    root = stdlib_root()
    names = [os.path.relpath(path, root) for path in stdlib_files()]
    assert names == sorted(names, key=lambda name: name.split(os.sep)) and len(set(names)) == len(names)
    assert {"argparse.py", "json/decoder.py", "asyncio/tasks.py"} <= set(names)
    assert not [name for name in names if LEFT_OUT & set(name.split(os.sep)[:-1])]
    assert all(os.path.getsize(os.path.join(root, name)) > 0 for name in names)


def test_a_venv_has_the_same_standard_library(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    code = "import sys; sys.path[:0] = sys.argv[1:]; from mindrecipe.data.stdlib import *; print(stdlib_root(), len(stdlib_files()))"
    source = str(Path(__file__).parents[2] / "src")
    out = subprocess.run([tmp_path / "venv/bin/python", "-c", code, source], check=True, capture_output=True, text=True).stdout
    assert out.split() == [stdlib_root(), str(len(stdlib_files()))]


def test_python_without_sources_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only 0 source files") as caught:
        stdlib_files(str(tmp_path))
    assert "dataset=text" in str(caught.value.mend)


def test_faults_inside_files_are_found_before_building(tmp_path: Path, cache: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ["one", "two"], field="content")
    with pytest.raises(UserError, match="no field 'text'; its fields: content, id"):
        find_corpus(make_spec(cache, files=(path,)), look_inside=True)
