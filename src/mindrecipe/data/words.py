"""The ids of words met before, without asking the tokenizer again: several times less CPU for the same ids.

GPT-2's byte-level scheme first cuts text into words with a fixed pattern, then merges bytes within each word, so a word's ids never
depend on its neighbours. For ASCII text Python's own `re` cuts alike. Holds for our trained BPE and for users' tokenizers of that scheme;
all other text and tokenizers go through the library (tokenizer.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

# \p{L}, \p{N} and \s of the library's pattern, as they are within ASCII
PATTERN = re.compile(r"'(?:[smtd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII)
# the letters that byte-level tokenizers write ASCII bytes with: printable ones as they are, the others from U+0100 on
_HIDDEN = [*range(0x21), 0x7F]
LETTERS = {byte: chr(0x100 + place) for place, byte in enumerate(_HIDDEN)}
MOST_WORDS = 1 << 17


def cuts_words(tokenizer: Any) -> bool:
    """Whether a `tokenizers` Tokenizer is a plain byte-level BPE, so that words are independent of each other."""
    content = json.loads(tokenizer.to_str())
    cutter, model = content["pre_tokenizer"] or {}, content["model"]
    return (
        content["normalizer"] is None
        and (cutter.get("type"), cutter.get("add_prefix_space"), cutter.get("use_regex")) == ("ByteLevel", False, True)
        and model["type"] == "BPE"
        and not any(model.get(name) for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
        and all(token["special"] for token in content["added_tokens"])
    )


class WordIds(dict[str, tuple[int, ...]]):
    """Word -> ids; a new word is asked of the tokenizer's model, and remembered while there are fewer than MOST_WORDS (some 30 MB)."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._model = tokenizer.model

    def __missing__(self, word: str) -> tuple[int, ...]:
        ids = tuple(token.id for token in self._model.tokenize(word.translate(LETTERS)))
        if len(self) < MOST_WORDS:
            self[word] = ids
        return ids

    def ids(self, text: str) -> Iterator[int]:
        """The ids of ASCII ``text``, the same as the tokenizer's."""
        return chain.from_iterable(map(self.__getitem__, PATTERN.findall(text)))
