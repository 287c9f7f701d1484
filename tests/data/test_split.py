from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from corpora import make_spec, prose, write_jsonl, write_texts
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.data.pieces import PIECE_CHARACTERS, cut, pieces
from mindrecipe.data.sources import SourceFile
from mindrecipe.data.split import TextSplit, find_corpus, split_files, unit_hash
from mindrecipe.errors import UserError

NAMES = st.lists(st.text("abcdef/", min_size=1, max_size=8), unique=True, max_size=30)


def sources(names: list[str]) -> list[SourceFile]:
    return [SourceFile(f"/{number}", name, 1, 1) for number, name in enumerate(names)]


@given(names=NAMES, fraction=st.floats(0, 0.9), copies=st.integers(1, 5))
def test_files_are_on_one_side_each_and_copies_stay_together(names: list[str], fraction: float, copies: int) -> None:
    files = sources(names)
    digests = {file.path: str(number // copies) for number, file in enumerate(files)}
    train, heldout = split_files(files, digests, fraction)
    assert sorted([*train, *heldout], key=lambda file: file.path) == sorted(files, key=lambda file: file.path)
    assert not {digests[file.path] for file in train} & {digests[file.path] for file in heldout}
    if len(set(digests.values())) > 1:
        assert train and (heldout or fraction == 0)


@given(names=NAMES, fraction=st.floats(0.05, 0.9))
def test_the_side_of_a_file_does_not_depend_on_the_others(names: list[str], fraction: float) -> None:
    anchors = [f"anchor{number}" for number in range(200)]  # enough that neither side would be empty
    files, alone = sources([*anchors, *names]), sources(anchors)
    sides = [{file.name for file in split_files(some, {file.path: file.name for file in some}, fraction)[1]} for some in (files, alone)]
    assert sides[0] & set(anchors) == sides[1]


def test_the_share_is_about_the_fraction() -> None:
    assert sum(unit_hash(f"file{number}") < 0.1 for number in range(10_000)) == pytest.approx(1000, abs=100)
    split = TextSplit(0.1)
    assert sum(split.held_out(f"text {number}") for number in range(10_000)) == pytest.approx(1000, abs=100)


@given(texts=st.lists(st.sampled_from([f"t{number}" for number in range(12)]), max_size=60), fraction=st.floats(0.01, 0.9))
def test_equal_texts_are_on_the_same_side_and_no_side_is_empty(texts: list[str], fraction: float) -> None:
    split = TextSplit(fraction)
    sides: dict[str, set[bool]] = {}
    for text in texts:
        sides.setdefault(text, set()).add(split.held_out(text))
    assert all(len(side) == 1 for side in sides.values())
    if len(sides) > 1:
        assert {True, False} == set.union(*sides.values())


def test_nothing_is_held_out_where_nothing_is_asked() -> None:
    split = TextSplit(0.0)
    assert not any(split.held_out(str(number)) for number in range(100))


def test_many_files_are_split_by_file(tmp_path: Path, cache: Path) -> None:
    files = write_texts(tmp_path / "data", 20)
    corpus = find_corpus(make_spec(cache, files=(f"{tmp_path}/data/*.txt",)), look_inside=True)
    assert corpus.text_fraction == 0 and corpus.train and corpus.heldout
    assert sorted(file.path for file in corpus.files) == files
    assert find_corpus(make_spec(cache, files=tuple(files)), look_inside=False) == corpus


def test_few_files_are_split_by_text(tmp_path: Path, cache: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [prose(number, 2) for number in range(200)])
    corpus = find_corpus(make_spec(cache, files=(path,)), look_inside=True)
    assert corpus.text_fraction == 0.1 and not corpus.heldout
    sides = {held: [piece.text for piece in pieces(corpus, "text") if piece.held_out is held] for held in (True, False)}
    assert 5 < len(sides[True]) < 40 and not set(sides[True]) & set(sides[False])
    assert sides[False] == [piece.text for piece in pieces(corpus, "text", train_only=True)]


def test_a_single_text_file_is_split_at_line_ends_and_nothing_is_lost(tmp_path: Path, cache: Path) -> None:
    text = prose(1, 4000)
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    corpus = find_corpus(make_spec(cache, files=(str(path),)), look_inside=True)
    found = list(pieces(corpus, "text"))
    assert "".join(piece.text for piece in found) == text
    share = sum(len(piece.text) for piece in found if piece.held_out) / len(text)
    assert 0.03 < share < 0.2
    for piece, following in pairwise(found):
        assert piece.ends == (piece.held_out != following.held_out), "a document ends where the side changes, and only there"
        assert piece.text.endswith("\n")
    assert found[-1].ends


@given(parts=st.lists(st.text("ab \n数", max_size=30), max_size=10), limit=st.integers(1, 20))
def test_cutting_loses_nothing_and_keeps_the_limit(parts: list[str], limit: int) -> None:
    text = "".join(parts)
    found = list(cut(text, limit))
    assert "".join(found) == text and all(0 < len(part) <= limit for part in found)


def test_a_long_document_ends_once(tmp_path: Path, cache: Path) -> None:
    texts = ["a line of text\n" * (3 * PIECE_CHARACTERS // 15), "short"]
    path = write_jsonl(tmp_path / "a.jsonl", texts)
    corpus = find_corpus(make_spec(cache, files=(path,), heldout_fraction=0.0), look_inside=True)
    found = list(pieces(corpus, "text"))
    assert len(found) > 3 and [piece.ends for piece in found] == [False] * (len(found) - 2) + [True, True]
    assert "".join(piece.text for piece in found) == "".join(texts)


def test_given_heldout_files_are_not_trained_on(tmp_path: Path, cache: Path) -> None:
    files = write_texts(tmp_path / "data", 5)
    spec = make_spec(cache, files=(f"{tmp_path}/data/*.txt",), heldout_files=(files[3],))
    corpus = find_corpus(spec, look_inside=True)
    assert [file.path for file in corpus.heldout] == [files[3]]
    assert [file.path for file in corpus.train] == files[:3] + files[4:]


def test_heldout_files_that_leave_nothing_are_refused(tmp_path: Path, cache: Path) -> None:
    files = tuple(write_texts(tmp_path / "data", 2))
    with pytest.raises(UserError, match=r"every file of dataset\.files is held out"):
        find_corpus(make_spec(cache, files=files, heldout_files=files), look_inside=True)


def test_a_copy_of_a_heldout_file_is_refused(tmp_path: Path, cache: Path) -> None:
    files = write_texts(tmp_path / "data", 2)
    copy = tmp_path / "val.txt"
    copy.write_bytes(Path(files[1]).read_bytes())
    with pytest.raises(UserError, match=r"val\.txt has the same content as training file .*part001"):
        find_corpus(make_spec(cache, files=tuple(files), heldout_files=(str(copy),)), look_inside=True)


def test_the_standard_library_is_split_by_file(cache: Path) -> None:
    corpus = find_corpus(make_spec(cache, source="stdlib"), look_inside=True)
    share = len(corpus.heldout) / len(corpus.files)
    assert len(corpus.files) > 300 and 0.05 < share < 0.16 and corpus.text_fraction == 0
    assert not {file.path for file in corpus.train} & {file.path for file in corpus.heldout}
    assert not {corpus.digests[file.path] for file in corpus.train} & {corpus.digests[file.path] for file in corpus.heldout}
