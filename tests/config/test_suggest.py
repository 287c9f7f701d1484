"""Did you mean: a list of what people type, each with what they mean."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.config.convert import value_of
from mindrecipe.config.keys import is_known, knobs
from mindrecipe.config.likeness import words
from mindrecipe.config.options import groups, options
from mindrecipe.config.suggest import nearest, nearest_choices, suggest, suggest_option, suggest_word

pytestmark = pytest.mark.usefixtures("here")
TYPOS = [
    tuple(line.split(" "))
    for line in (Path(__file__).parent / "typos.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@cache
def said(text: str) -> list[list[str]]:
    """The first three suggestions for what was typed, as the words a shell makes of each."""
    key, equals, value = text.lstrip("+").partition("=")
    if not equals or text.startswith("-"):
        found = suggest_word(text)
    elif key in groups():
        found = suggest_option(key, value)
    elif is_known(key):
        found = [finding.mend or "" for finding in value_of(key, value)[1]]
    else:
        found = suggest(key, value)
    return [shlex.split(each) for each in found[:3]]


def meant(wanted: str, found: list[list[str]]) -> bool:
    return any(word == wanted if "=" in wanted else word.partition("=")[0] == wanted for each in found for word in each)


def test_what_is_meant_is_among_the_first_three() -> None:
    missed = [(given, wanted, said(given)) for given, wanted in TYPOS if not meant(wanted, said(given))]
    assert len(TYPOS) >= 200
    assert len(missed) <= 0.05 * len(TYPOS), missed


def test_what_is_meant_is_mostly_the_first() -> None:
    first = sum(meant(wanted, said(given)[:1]) for given, wanted in TYPOS)
    assert first >= 0.85 * len(TYPOS)


def test_the_list_is_of_things_that_exist() -> None:
    for _, wanted in TYPOS:
        key, _, value = wanted.partition("=")
        assert is_known(key) or value in options(key), wanted


@pytest.mark.parametrize("key", [key for key in knobs() if "." in key])
def test_each_key_is_found_without_its_section_and_with_a_letter_missing(key: str) -> None:
    last = key.rpartition(".")[2]
    others = [other for other in knobs() if other.rpartition(".")[2] == last]
    assert set(nearest(last, 4)) & set(others)
    if len(last) > 5:
        assert key in nearest(f"{key[:-3]}{key[-2:]}"), key


@pytest.mark.parametrize(
    "text, first",
    [
        ("launch.environment.OMP_NUM_THREADS=2", "launch.env.OMP_NUM_THREADS=2"),
        ("optimizer.extras.momentum=0.9", "optimizer.extra.momentum=0.9"),
        ("run.nam=a b", "'run.name=a b'"),
        ("fp16=true", "amp=O2 amp.dtype=float16"),
    ],
)
def test_a_suggestion_can_be_pasted(text: str, first: str) -> None:
    key, _, value = text.partition("=")
    assert suggest(key, value)[0] == first


@pytest.mark.parametrize(
    "group, option, first",
    [
        ("dataset", "data/wiki.txt", "dataset=text 'dataset.files=[data/wiki.txt]'"),
        ("dataset", "/d/a.mindrecord", "dataset=mindrecord 'dataset.files=[/d/a.mindrecord]'"),
        ("launch", "8", "launch.workers=8"),
        ("checkpoint", "false", "checkpoint=off"),
        ("memory", "58GB", "memory.max_device_memory=58GB"),
    ],
)
def test_values_given_to_a_group(group: str, option: str, first: str) -> None:
    assert suggest_option(group, option)[0] == first


def test_words_of_a_name() -> None:
    assert words("maxSeqLen") == ("max", "seq", "length")
    assert words("tp") == ("model", "parallel")
    assert words("adam_beta1") == ("adam", "betas", "1")


def test_choices_in_other_spellings() -> None:
    assert nearest_choices("bf16", ("auto", "float16", "bfloat16"))[0] == "bfloat16"
    assert nearest_choices("Data-Parallel", ("standalone", "data_parallel"))[0] == "data_parallel"


@given(st.text(max_size=30), st.text(max_size=20))
def test_suggesting_never_fails_and_offers_what_exists(key: str, value: str) -> None:
    assert len(suggest(key, value)) <= 3 and all(is_known(each) for each in nearest(key))
    for text in [*suggest(key, value), *suggest_option("amp", value), *suggest_word(key)]:
        for word in shlex.split(text):
            name = word.partition("=")[0]
            assert is_known(name) or name in groups(), text
