from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import make_spec, prose, write_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mindrecipe.data import bpe
from mindrecipe.data.bpe import bpe_key, cached_bpe, train_bpe
from mindrecipe.data.pack import Ids
from mindrecipe.data.pieces import Piece, batches
from mindrecipe.data.spec import DataSpec
from mindrecipe.data.split import find_corpus
from mindrecipe.data.stdlib import stdlib_files
from mindrecipe.data.tokenizer import LOOKAHEAD, ByteEncoder, LibraryEncoder, encode_all, library_encoder
from mindrecipe.data.words import WordIds, cuts_words
from mindrecipe.errors import UserError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
SPEC = make_spec(Path("/nowhere"), tokenizer="bpe")


@pytest.fixture(scope="module")
def trained() -> str:
    return train_bpe(SPEC, (prose(seed, 50) for seed in range(20)))


@pytest.fixture(scope="module")
def encoder(trained: str) -> LibraryEncoder:
    return library_encoder(trained, SPEC)


@given(text=TEXT)
def test_bytes_round_trip(text: str) -> None:
    coder = ByteEncoder(make_spec(Path("/nowhere"), eos_token_id=100, pad_token_id=-1))
    train, heldout = coder.encode([Piece(text, True, False)])
    assert train[-1] == 100 and len(heldout) == 0 and 100 not in train[:-1]
    assert coder.decode(train).decode() == text


@settings(max_examples=50)
@given(text=TEXT)
def test_bpe_round_trips_any_text(encoder: LibraryEncoder, text: str) -> None:
    train, heldout = encoder.encode([Piece(text, False, True)])
    assert len(train) == 0
    assert encoder.tokenizer.decode(heldout.tolist(), skip_special_tokens=False) == text


def test_ids_stay_in_the_vocabulary_and_off_the_special_ones(encoder: LibraryEncoder) -> None:
    ids, _ = encoder.encode([Piece(prose(99, 300), False, False)])
    assert ids.dtype == np.int32 and ids.min() >= 3 and ids.max() < SPEC.tokenizer_vocab_size
    assert len(np.unique(ids)) > 20


def test_text_that_looks_special_stays_text(encoder: LibraryEncoder) -> None:
    ids, _ = encoder.encode([Piece("<pad><s></s>", False, False)])
    assert not set(ids.tolist()) & {0, 1, 2} and encoder.tokenizer.decode(ids.tolist()) == "<pad><s></s>"


def test_eos_ends_documents_and_each_side_has_its_own(encoder: LibraryEncoder) -> None:
    batch = [Piece("alpha", False, False), Piece(" beta", True, False), Piece("gamma", True, True)]
    train, heldout = encoder.encode(batch)
    assert (train == 2).sum() == 1 and train[-1] == 2 and heldout[-1] == 2
    assert encoder.tokenizer.decode(train[:-1].tolist()) == "alpha beta"


def test_training_gives_the_same_tokenizer_each_time(trained: str) -> None:
    assert train_bpe(SPEC, (prose(seed, 50) for seed in range(20))) == trained


@pytest.mark.parametrize(("eos", "pad"), [(2, 0), (7, 300), (511, -1), (4, 4), (100_000, 0)])
def test_special_tokens_are_where_the_model_has_them(eos: int, pad: int) -> None:
    spec = make_spec(Path("/nowhere"), tokenizer="bpe", eos_token_id=eos, pad_token_id=pad, vocab_size=100_001)
    content = json.loads(train_bpe(spec, iter([prose(1, 400)])))
    added = {token["id"]: token["content"] for token in content["added_tokens"]}
    vocab = content["model"]["vocab"]
    assert len(set(vocab.values())) == len(vocab) and max(vocab.values()) < 512
    assert added.get(eos) == ("</s>" if eos < 512 else None)
    assert pad in (-1, eos) or added[pad] == "<pad>"
    coder = library_encoder(json.dumps(content), spec)
    assert {token: coder.tokenizer.token_to_id(token) for token in vocab} == vocab
    ids, _ = coder.encode([Piece(prose(2, 100), True, False)])
    assert ids[-1] == eos and not set(ids[:-1].tolist()) & {0, 1, 2, eos, pad}
    assert coder.tokenizer.decode(ids[:-1].tolist()) == prose(2, 100)


def test_a_users_tokenizer_does_not_cut_or_fill(trained: str) -> None:
    content = json.loads(trained)
    content["truncation"] = {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    content["padding"] = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>",
    }  # fmt: skip
    ids, _ = library_encoder(json.dumps(content), SPEC).encode([Piece(prose(3, 20), False, False)])
    assert len(ids) > 8 and 0 not in ids


def test_a_file_the_library_refuses_is_the_users_fault() -> None:
    with pytest.raises(UserError, match=r"is not a tokenizer\.json"):
        library_encoder('{"model": {"vocab": {"a": 0}, "type": "Nonsense"}}', SPEC)


class Recorder:
    """Encodes a piece to its length; remembers how many are under way and how far ahead."""

    workers = 3

    def __init__(self) -> None:
        self.started, self.lock = 0, threading.Lock()

    def encode(self, batch: list[Piece]) -> tuple[Ids, Ids]:
        with self.lock:
            self.started += 1
        return np.array([len(piece.text) for piece in batch], np.int32), np.empty(0, np.int32)


def test_encoding_keeps_the_order_and_does_not_run_away() -> None:
    recorder, total = Recorder(), 5 * LOOKAHEAD
    stream = ([Piece("x" * number, False, False)] for number in range(total))
    for number, (size, ids, _) in enumerate(encode_all(recorder, stream)):
        assert size == number and ids.tolist() == [number]
        assert recorder.started <= number + LOOKAHEAD + 1
    assert number == total - 1


def test_a_fault_in_encoding_or_reading_comes_out() -> None:
    class Broken:
        workers = 2

        def encode(self, batch: list[Piece]) -> tuple[Ids, Ids]:
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(encode_all(Broken(), iter([[Piece("x", False, False)]] * 500)))

    def reading() -> object:
        yield [Piece("x", False, False)]
        raise UserError("bad line")

    with pytest.raises(UserError, match="bad line"):
        list(encode_all(Recorder(), reading()))  # type: ignore[arg-type]


@given(sizes=st.lists(st.integers(0, 30), max_size=50), characters=st.integers(1, 60), count=st.integers(1, 8))
def test_batches_hold_every_piece_in_order(sizes: list[int], characters: int, count: int) -> None:
    stream = [Piece("x" * size, bool(size % 2), False) for size in sizes]
    found = list(batches(iter(stream), characters, count))
    assert [piece for batch in found for piece in batch] == stream
    assert all(0 < len(batch) <= count for batch in found)
    assert all(sum(len(piece.text) for piece in batch[:-1]) < characters for batch in found)


def no_report(read: int, total: int) -> None:
    assert 0 <= read <= total


def corpus_spec(tmp_path: Path, cache: Path) -> DataSpec:
    return make_spec(cache, files=tuple(write_texts(tmp_path / "data", 20, lines=60)), tokenizer="bpe")


def test_the_tokenizer_is_kept_and_sees_the_training_split_only(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = corpus_spec(tmp_path, cache)
    corpus = find_corpus(spec, look_inside=False)
    seen: list[str] = []

    def watched(given: DataSpec, texts: object) -> str:
        seen.extend(texts)  # type: ignore[arg-type]
        return train_bpe(given, iter(seen))

    monkeypatch.setattr(bpe, "train_bpe", watched)
    first = cached_bpe(spec, corpus, no_report)
    assert "".join(seen) == "".join(Path(file.path).read_text(encoding="utf-8") for file in corpus.train)
    seen.clear()
    assert cached_bpe(make_spec(cache, files=spec.files, tokenizer="bpe", seq_length=64), corpus, no_report) == first and not seen
    assert [path.name for path in (cache / "tokenizers").iterdir()] == [f"{bpe_key(spec, corpus)}.json"]


def test_training_reads_a_sample_from_all_of_a_large_corpus(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "TRAINING_CHARACTERS", 4_000)
    spec = corpus_spec(tmp_path, cache)
    corpus = find_corpus(spec, look_inside=False)
    sample = list(bpe._sample(spec, corpus, no_report))
    texts = [Path(file.path).read_text(encoding="utf-8") for file in corpus.train]
    assert 2_000 < sum(map(len, sample)) < 8_000
    places = [texts.index(text) for text in sample]
    assert places == sorted(places) and places[-1] > len(texts) // 2


ASCII = st.text(st.one_of(st.characters(max_codepoint=127), st.sampled_from("  \n\n\t'sdlvert")), max_size=80)


@settings(max_examples=400)
@given(text=ASCII)
def test_looking_words_up_gives_the_ids_of_the_library(encoder: LibraryEncoder, text: str) -> None:
    words = WordIds(encoder.tokenizer)
    expected = encoder.tokenizer.encode(text, add_special_tokens=False).ids
    assert list(words.ids(text)) == expected
    assert list(words.ids(text)) == expected, "and once more from memory"


def test_looking_words_up_agrees_on_real_source(encoder: LibraryEncoder) -> None:
    words, files = WordIds(encoder.tokenizer), [Path(path).read_text(encoding="utf-8") for path in stdlib_files()[:60]]
    texts = [text for text in files if text.isascii()]
    assert len(texts) > 30
    expected = encoder.tokenizer.encode_batch(texts, add_special_tokens=False)
    assert [list(words.ids(text)) for text in texts] == [encoding.ids for encoding in expected]


def test_both_ways_of_encoding_a_batch_are_the_same(encoder: LibraryEncoder) -> None:
    batch = [Piece(prose(seed, 6), seed % 2 == 0, seed % 3 == 0) for seed in range(40)]
    batch += [Piece("only ascii " * seed, True, seed % 2 == 0) for seed in range(9)]
    looked_up, asked = encoder._encode(batch, WordIds(encoder.tokenizer)), encoder._encode(batch, None)
    assert all(np.array_equal(one, other) and len(one) for one, other in zip(looked_up, asked, strict=True))


def test_the_memory_of_words_is_bounded(encoder: LibraryEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindrecipe.data.words.MOST_WORDS", 10)
    words, text = WordIds(encoder.tokenizer), " ".join(f"w{number}x" for number in range(500))
    assert list(words.ids(text)) == encoder.tokenizer.encode(text, add_special_tokens=False).ids and len(words) == 10


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["pre_tokenizer"].update(add_prefix_space=True),
        lambda content: content["pre_tokenizer"].update(use_regex=False),
        lambda content: content.update(pre_tokenizer={"type": "Whitespace"}),
        lambda content: content.update(pre_tokenizer=None),
        lambda content: content.update(normalizer={"type": "Lowercase"}),
        lambda content: content["model"].update(dropout=0.1),
        lambda content: content["added_tokens"][0].update(special=False),
    ],
)
def test_words_are_looked_up_only_where_they_are_independent(trained: str, change: Callable[[Any], None]) -> None:
    content = json.loads(trained)
    assert cuts_words(Tokenizer.from_str(json.dumps(content)))
    change(content)
    assert not cuts_words(Tokenizer.from_str(json.dumps(content)))
