"""Which ids a tokenizer may use: never one beyond the model's embedding, never a special one for ordinary text.

Checked from plain JSON, before anything is built; no tokenizer library is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count, islice
from typing import Any

from mindrecipe.data.spec import DataSpec
from mindrecipe.errors import UserError

BYTE_VALUES = 256
PLAIN = ("bpe", "bytes")


def special_ids(spec: DataSpec) -> frozenset[int]:
    """Ids that ordinary text never gets: 0, 1, 2 (pad, bos, eos by custom) and the model's own eos and pad."""
    return frozenset({0, 1, 2, spec.eos_token_id} | ({spec.pad_token_id} if spec.pad_token_id >= 0 else set()))


def text_ids(amount: int, taken: Iterable[int]) -> list[int]:
    """The ``amount`` smallest ids that are not ``taken``."""
    taken = frozenset(taken)
    return list(islice((number for number in count() if number not in taken), amount))


def pad_id(spec: DataSpec) -> int:
    """The id that fills the rest of a masked row: pad, or eos where the model has none."""
    return spec.pad_token_id if spec.pad_token_id >= 0 else spec.eos_token_id


def _check_specials(spec: DataSpec) -> None:
    for name, value in (("eos_token_id", spec.eos_token_id), ("pad_token_id", spec.pad_token_id)):
        if value >= spec.vocab_size:
            raise UserError(
                f"model.{name}={value} is beyond the {spec.vocab_size} ids of the model",
                where=f"model.{name}={value}",
                mend=f"model.vocab_size={value + 1}",
            )


def _check_bytes(spec: DataSpec) -> None:
    needed = text_ids(BYTE_VALUES, special_ids(spec))[-1] + 1
    if needed > spec.vocab_size:
        raise UserError(
            f"dataset.tokenizer=bytes uses ids up to {needed - 1}, the model has {spec.vocab_size}",
            where=f"model.vocab_size={spec.vocab_size}",
            mend=f"model.vocab_size={needed}",
        )


def _check_bpe(spec: DataSpec) -> None:
    size = spec.tokenizer_vocab_size
    if size > spec.vocab_size:
        raise UserError(
            f"dataset.tokenizer_vocab_size={size} is more than the {spec.vocab_size} ids of the model",
            where=f"dataset.tokenizer_vocab_size={size}",
            mend=f"dataset.tokenizer_vocab_size={spec.vocab_size} or model.vocab_size={size}",
        )
    fewest = text_ids(BYTE_VALUES, special_ids(spec))[-1] + 2
    if size < fewest:
        raise UserError(
            f"a byte-level BPE needs at least {fewest} ids, dataset.tokenizer_vocab_size={size}",
            where=f"dataset.tokenizer_vocab_size={size}",
            mend=f"model.vocab_size={max(fewest, 512)} dataset.tokenizer_vocab_size=null",
        )


def read_tokenizer_json(path: str) -> dict[str, Any]:
    """The parsed file. Raises UserError where it is missing or not a `tokenizers` file."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} cannot be read: {reason}", where="dataset.tokenizer", mend="dataset.tokenizer=bpe") from None
    except ValueError as error:
        raise UserError(f"{path} is not a tokenizer.json: {error}", where="dataset.tokenizer") from None
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict) or not content["model"].get("vocab"):
        raise UserError(f"{path} is not a tokenizer.json: it has no model.vocab", where="dataset.tokenizer")
    return content


def _vocabulary(content: dict[str, Any]) -> tuple[dict[int, str], dict[int, str]]:
    """(ordinary tokens, added tokens) by id."""
    vocab = content["model"]["vocab"]
    if isinstance(vocab, dict):
        ordinary = {number: token for token, number in vocab.items()}
    else:  # Unigram: a list of (token, score)
        ordinary = {number: pair[0] for number, pair in enumerate(vocab)}
    added = {int(token["id"]): str(token["content"]) for token in content.get("added_tokens") or ()}
    return ordinary, added


def _check_file(spec: DataSpec) -> None:
    ordinary, added = _vocabulary(read_tokenizer_json(spec.tokenizer))
    largest = max([*ordinary, *added])
    if largest >= spec.vocab_size:
        raise UserError(
            f"the tokenizer has ids up to {largest}, the model has {spec.vocab_size}",
            where=f"dataset.tokenizer={spec.tokenizer}",
            mend=f"model.vocab_size={largest + 1}",
        )
    listed = ", ".join(f"{token}={number}" for number, token in sorted(added.items())[:8]) or "none"
    for name, value in (("eos_token_id", spec.eos_token_id), ("pad_token_id", spec.pad_token_id)):
        if value in ordinary and value not in added:
            mend = "model.pad_token_id=-1" if name.startswith("pad") else f"model.{name}=<one of them>"
            raise UserError(
                f"model.{name}={value} is the ordinary token {ordinary[value]!r} in this tokenizer; its special tokens: {listed}",
                where=f"dataset.tokenizer={spec.tokenizer}",
                mend=mend,
            )


def check_vocabulary(spec: DataSpec) -> None:
    """Raise UserError where the tokenizer could yield an id the model does not have, or one that means something else to it."""
    _check_specials(spec)
    if spec.tokenizer == "bytes":
        _check_bytes(spec)
    elif spec.tokenizer == "bpe":
        _check_bpe(spec)
    else:
        _check_file(spec)
