from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.data.entropy import UnigramCounts, unigram_entropy
from mindrecipe.data.pack import Packer, padded_row

PORTIONS = st.lists(st.lists(st.integers(0, 1000), max_size=40), max_size=20)


@given(portions=PORTIONS, seq_length=st.integers(1, 17))
def test_every_id_but_the_first_is_a_target_exactly_once(portions: list[list[int]], seq_length: int) -> None:
    stream = [number for portion in portions for number in portion]
    packer = Packer(seq_length)
    rows = np.concatenate([packer.push(np.array(portion, np.int32)) for portion in portions] or [np.empty((0, seq_length + 1), np.int32)])
    rest = packer.rest
    assert rows.dtype == np.int32 and rows.shape[1] == seq_length + 1
    assert len(rest) <= seq_length or not len(rows)
    targets = [*rows[:, 1:].ravel(), *rest[1:]]
    assert targets == stream[1:]
    inputs = [*rows[:, :-1].ravel(), *rest[:-1]]
    assert inputs == stream[:-1]


@given(portions=PORTIONS, seq_length=st.integers(1, 17))
def test_rows_do_not_depend_on_how_the_stream_is_portioned(portions: list[list[int]], seq_length: int) -> None:
    stream = np.array([number for portion in portions for number in portion], np.int32)
    packer, whole = Packer(seq_length), Packer(seq_length)
    rows = [packer.push(np.array(portion, np.int32)) for portion in portions]
    expected = whole.push(stream)
    assert np.array_equal(np.concatenate(rows) if rows else np.empty((0, seq_length + 1)), expected)
    assert np.array_equal(packer.rest, whole.rest)


@given(rest=st.lists(st.integers(1, 1000), min_size=2, max_size=16))
def test_padding_is_masked_and_real_targets_are_not(rest: list[int]) -> None:
    row, mask = padded_row(np.array(rest, np.int32), 16, fill=0)
    assert row.shape == (1, 17) and mask.shape == (1, 16) and row.dtype == mask.dtype == np.int32
    assert row[0, 1:][mask[0] == 1].tolist() == rest[1:]
    assert not row[0, 1:][mask[0] == 0].any()


def test_a_row_is_not_a_view_of_the_buffer() -> None:
    packer = Packer(2)
    rows = packer.push(np.arange(5, dtype=np.int32))
    rows[0, 2] = 99
    assert rows.tolist() == [[0, 1, 99], [2, 3, 4]]


def test_entropy_of_a_uniform_source_is_its_logarithm() -> None:
    train, heldout = UnigramCounts(8), UnigramCounts(8)
    train.add(np.tile(np.arange(8, dtype=np.int32), 10_000))
    heldout.add(np.arange(8, dtype=np.int32))
    assert unigram_entropy(train, heldout) == pytest.approx(np.log(8))


def test_entropy_smooths_what_training_never_saw() -> None:
    train, heldout = UnigramCounts(4), UnigramCounts(4)
    train.add(np.array([0, 0, 0, 1], np.int32))
    heldout.add(np.array([0, 3], np.int32))
    assert unigram_entropy(train, heldout) == pytest.approx(-(np.log(4 / 8) + np.log(1 / 8)) / 2)


def test_counting_refuses_an_id_beyond_the_vocabulary() -> None:
    with pytest.raises(ValueError, match="id 4 is beyond"):
        UnigramCounts(4).add(np.array([4], np.int32))
