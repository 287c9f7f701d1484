from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpora import make_spec

from mindrecipe.data.vocabulary import check_vocabulary, pad_id, special_ids, text_ids
from mindrecipe.errors import UserError


def tokenizer_json(path: Path, vocab: Any, added: dict[str, int] | None = None) -> str:
    tokens = [{"id": number, "content": token, "special": True} for token, number in (added or {}).items()]
    path.write_text(json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": []}, "added_tokens": tokens}))
    return str(path)


def test_bytes_start_behind_the_special_ids(cache: Path) -> None:
    assert text_ids(256, special_ids(make_spec(cache))) == list(range(3, 259))
    assert text_ids(256, special_ids(make_spec(cache, eos_token_id=5, pad_token_id=-1)))[:4] == [3, 4, 6, 7]


def test_padding_is_eos_where_there_is_no_pad(cache: Path) -> None:
    assert pad_id(make_spec(cache, pad_token_id=-1)) == 2 and pad_id(make_spec(cache, pad_token_id=7)) == 7


@pytest.mark.parametrize(
    ("changes", "said", "mend"),
    [
        ({"vocab_size": 258}, "uses ids up to 258, the model has 258", "model.vocab_size=259"),
        ({"vocab_size": 259, "eos_token_id": 258}, "uses ids up to 259", "model.vocab_size=260"),
        ({"eos_token_id": 512}, "model.eos_token_id=512 is beyond the 512 ids", "model.vocab_size=513"),
        ({"pad_token_id": 600}, "model.pad_token_id=600 is beyond", "model.vocab_size=601"),
        ({"tokenizer": "bpe", "tokenizer_vocab_size": 1000}, "1000 is more than the 512", "_size=512 or model.vocab_size=1000"),
        ({"tokenizer": "bpe", "tokenizer_vocab_size": 259}, "needs at least 260 ids", "model.vocab_size=512"),
        ({"tokenizer": "/no/tokenizer.json"}, "cannot be read: No such file", "dataset.tokenizer=bpe"),
    ],
)
def test_ids_the_model_does_not_have_are_refused(cache: Path, changes: dict[str, Any], said: str, mend: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        check_vocabulary(make_spec(cache, **changes))
    assert mend in str(caught.value.mend)


@pytest.mark.parametrize("changes", [{"vocab_size": 259}, {"tokenizer": "bpe", "tokenizer_vocab_size": 260, "vocab_size": 260}])
def test_the_smallest_vocabularies_are_enough(cache: Path, changes: dict[str, Any]) -> None:
    check_vocabulary(make_spec(cache, **changes))


def test_a_tokenizer_file_larger_than_the_model_is_refused(tmp_path: Path, cache: Path) -> None:
    path = tokenizer_json(tmp_path / "t.json", {"a": 3, "b": 600}, {"<pad>": 0, "</s>": 2})
    with pytest.raises(UserError, match="ids up to 600, the model has 512") as caught:
        check_vocabulary(make_spec(cache, tokenizer=path))
    assert caught.value.mend == "model.vocab_size=601"


def test_added_tokens_count_too(tmp_path: Path, cache: Path) -> None:
    path = tokenizer_json(tmp_path / "t.json", {"a": 3}, {"<pad>": 0, "</s>": 2, "<extra>": 512})
    with pytest.raises(UserError, match="ids up to 512"):
        check_vocabulary(make_spec(cache, tokenizer=path))


@pytest.mark.parametrize("vocab", [{"!": 0, '"': 1, "#": 2}, [["!", 0.0], ['"', 0.0], ["#", 0.0]]])
def test_an_eos_that_is_an_ordinary_token_is_refused(tmp_path: Path, cache: Path, vocab: Any) -> None:
    path = tokenizer_json(tmp_path / "t.json", vocab, {"<|endoftext|>": 50})
    with pytest.raises(UserError, match=r"model.eos_token_id=2 is the ordinary token '#'.*<\|endoftext\|>=50"):
        check_vocabulary(make_spec(cache, tokenizer=path))
    with pytest.raises(UserError, match=r"model\.pad_token_id=0 is the ordinary token '!'") as caught:
        check_vocabulary(make_spec(cache, tokenizer=path, eos_token_id=50))
    assert caught.value.mend == "model.pad_token_id=-1"
    check_vocabulary(make_spec(cache, tokenizer=path, eos_token_id=50, pad_token_id=-1))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"model": {"vocab": {}}}', "\udcff"])
def test_what_is_no_tokenizer_file_is_told(tmp_path: Path, cache: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=r"is not a tokenizer\.json"):
        check_vocabulary(make_spec(cache, tokenizer=str(path)))
