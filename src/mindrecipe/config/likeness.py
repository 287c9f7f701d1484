"""How much two names are alike: word by word, and letter by letter where they are written in one."""

from __future__ import annotations

import functools
import re

from mindrecipe.config.foreign import SHORT

#: words that tell little
_WEAK = {"num", "size", "max", "the", "of", "per", "model", "train", "use", "enable", "config", "global", "total", "steps", "data", "path"}
_WEAK_WEIGHT = 0.4
#: two words that are one, misspelt
_SAME_WORD = 0.74


def words(name: str) -> tuple[str, ...]:
    """``name`` in small words, camel case cut, abbreviations written out: "maxSeqLen" -> max, seq, length."""
    cut = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)", " ", name).lower()
    return tuple(word for short in re.findall(r"[a-z]+|\d+", cut) for word in SHORT.get(short, short).split())


def likeness(asked: tuple[str, ...], known: tuple[str, ...]) -> float:
    """0 to 1: how much of both names is the same, word by word, or letter by letter where they are written in one."""
    if asked == known:
        return 1.0
    by_letters = letters("".join(asked), "".join(known))
    if not asked or not known:
        return by_letters
    pairs = {
        (one, other): 1.0 if one == other else ratio if (ratio := _word_likeness(one, other)) >= _SAME_WORD else 0.0
        for one in asked
        for other in known
    }
    hit = sum(_weight(one) * max(pairs[one, other] for other in known) for one in asked) / sum(map(_weight, asked))
    covered = sum(_weight(other) * max(pairs[one, other] for one in asked) for other in known) / sum(map(_weight, known))
    by_words = 2 * hit * covered / (hit + covered) if hit + covered else 0.0
    return 0.6 * max(by_words, by_letters) + 0.4 * (by_words + by_letters) / 2


@functools.cache
def _word_likeness(one: str, other: str) -> float:
    if min(len(one), len(other)) < 3:
        return 0.0
    if one.startswith(other) or other.startswith(one):
        return 0.9
    return letters(one, other)


def letters(one: str, other: str) -> float:
    """0 to 1: the share of letters that stand in both in the same order."""
    from rapidfuzz import fuzz  # only where something is wrong: it costs a tenth of a check to import

    return fuzz.ratio(one, other) / 100


def _weight(word: str) -> float:
    return _WEAK_WEIGHT if word in _WEAK else 1.0
