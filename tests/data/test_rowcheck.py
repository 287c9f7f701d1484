"""Rows with every fault there is: each is found, with its file and row, and sound rows are not accused."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.records import integers, write_record
from mindrecipe.data.recordfile import _integers, open_record
from mindrecipe.data.rowcheck import DataReport, check_rows, histogram, shards
from mindrecipe.data.rowscan import Wanted, array_of
from mindrecipe.errors import UserError

SEQ, VOCAB = 16, 100
LABELLED = {"input_ids": "int32", "labels": "int32", "loss_mask": "float32"}


def ids(seed: int, width: int = SEQ + 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(1, VOCAB) for _ in range(width)]


def labelled(seed: int, **changes: Any) -> dict[str, Any]:
    row = ids(seed)
    return {"input_ids": row[:-1], "labels": row[1:], "loss_mask": [1.0] * SEQ, **changes}


def shifted(folder: Path, rows: list[list[int]], name: str = "train.mindrecord") -> str:
    return write_record(folder / name, {"input_ids": "int32"}, [{"input_ids": row} for row in rows])


def checked(train: list[str], heldout: list[str] = [], *, is_shifted: bool = True, **how: Any) -> DataReport:  # noqa: B006 - not changed
    columns = ("input_ids",) if is_shifted else tuple(LABELLED)
    wanted = Wanted(columns=columns, seq_length=SEQ, shifted=is_shifted, vocab_size=VOCAB, pad_token_id=0, keep=1)
    return check_rows(train, heldout, wanted, shards(1, 1, 1, True), **how)


def found(report: DataReport) -> dict[str, tuple[int, int]]:
    return {find.kind: (find.count, find.places[0][1]) for find in report.finds}


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300), max_size=40))
def test_integers_of_any_width(values: list[int]) -> None:
    blob = integers(values)
    assert array_of(blob, "int64").tolist() == values == _integers(blob)


def test_bytes_that_are_no_integers() -> None:
    with pytest.raises(ValueError, match="do not fill"):
        array_of(integers([1, 2, 3])[:-1], "int32")


def test_sound_rows(tmp_path: Path) -> None:
    train = shifted(tmp_path, [ids(seed) for seed in range(700)])
    heldout = shifted(tmp_path, [ids(seed) for seed in range(1000, 1100)], "held.mindrecord")
    report = checked([train], [heldout])
    assert report.finds == [] and report.errors == 0
    assert (report.rows, report.rows_read, report.complete, report.tokens_read) == (800, 800, True, 800 * SEQ)
    assert report.lengths == [(SEQ, SEQ, 700)] and report.tokens_per_second > 0


@pytest.mark.parametrize(
    "row, kind, severity",
    [
        ([5] * 3 + [VOCAB] + [5] * 13, "ids", "error"),
        ([5] * 3 + [-1] + [5] * 13, "ids", "error"),
        ([5] * 16, "ragged", "error"),
        ([5] * 18, "ragged", "error"),
        ([0] * 17, "zeros", "warning"),
        ([7] + [0] * 16, "no_target", "warning"),
    ],
)
def test_rows_of_the_shifted_layout(tmp_path: Path, row: list[int], kind: str, severity: str) -> None:
    rows = [ids(seed) for seed in range(40)]
    rows[33] = row
    (find,) = checked([shifted(tmp_path, rows)]).finds
    assert (find.kind, find.severity, find.count, find.split) == (kind, severity, 1, "train")
    assert find.places[0][:2] == (str(tmp_path / "train.mindrecord"), 33) and find.why


@pytest.mark.parametrize(
    "changes, kind",
    [
        ({"loss_mask": [0.0] * SEQ}, "no_target"),
        ({"loss_mask": [0.5] * SEQ}, "mask"),
        ({"labels": [VOCAB] * SEQ}, "labels"),
        ({"labels": ids(33)[:-1]}, "shift"),
        ({"labels": [3] * 5}, "ragged"),
        ({"input_ids": [0] * SEQ}, "zeros"),
    ],
)
def test_rows_of_the_labelled_layout(tmp_path: Path, changes: dict[str, Any], kind: str) -> None:
    rows = [labelled(seed, **(changes if seed == 33 else {})) for seed in range(40)]
    report = checked([write_record(tmp_path / "a.mindrecord", LABELLED, rows)], is_shifted=False)
    assert found(report)[kind] == (1, 33)


def test_labels_that_are_left_out_may_be_anything(tmp_path: Path) -> None:
    row = ids(1)
    rows = [
        {"input_ids": row[:-1], "labels": [*row[1:9], *[-100] * 8], "loss_mask": [1.0] * SEQ},
        {"input_ids": row[1:], "labels": [*row[2:10], *[999] * 8], "loss_mask": [1.0] * 8 + [0.0] * 8},
    ]
    report = checked([write_record(tmp_path / "a.mindrecord", LABELLED, rows)], is_shifted=False)
    assert report.finds == [] and report.tokens_read == 16


@pytest.mark.parametrize("prompt", range(SEQ + 1))
def test_a_prompt_of_any_length_is_no_shift(tmp_path: Path, prompt: int) -> None:
    """Masked by its labels alone, as mindformers does: a row that a prompt fills trains on nothing, and is not called shifted."""
    rows = [labelled(seed) for seed in range(40)]
    rows[33]["labels"] = [-100] * prompt + rows[33]["labels"][prompt:]
    finds = found(checked([write_record(tmp_path / "a.mindrecord", LABELLED, rows)], is_shifted=False))
    assert finds == ({"no_target": (1, 33)} if prompt == SEQ else {})


@pytest.mark.parametrize("same", [True, False])
def test_labels_in_the_wrong_place_are_found_behind_a_prompt(tmp_path: Path, same: bool) -> None:
    rows = [labelled(seed) for seed in range(40)]
    rows[33]["labels"] = [-100] * 6 + (rows[33]["input_ids"][6:] if same else [VOCAB - 1] * (SEQ - 6))
    (find,) = checked([write_record(tmp_path / "a.mindrecord", LABELLED, rows)], is_shifted=False).finds
    assert (find.kind, find.places[0][1]) == ("shift", 33)
    assert find.places[0][2] == ("its labels are its ids, not the next ids" if same else "no label is the id that follows")


def test_copies_and_leaks(tmp_path: Path) -> None:
    first = shifted(tmp_path, [ids(seed) for seed in range(300)], "a.mindrecord")
    second = shifted(tmp_path, [ids(seed) for seed in (500, 7, 501, 7)], "b.mindrecord")
    held = shifted(tmp_path, [ids(900), ids(501)], "held.mindrecord")
    finds = {(find.kind, find.split): find for find in checked([first, second], [held]).finds}
    assert finds["duplicate", "train"].count == 2
    assert finds["duplicate", "train"].places[0] == (second, 1, "it is row 7 of a.mindrecord again")
    assert finds["leak", "held-out"].places == [(held, 1, "it is row 2 of the training file b.mindrecord")]


def test_a_sample_is_spread_and_says_that_it_is_one(tmp_path: Path) -> None:
    rows = [ids(seed) for seed in range(256 * 9)]
    rows[0] = rows[-1] = [VOCAB] * 17  # the first and the last block are always read
    report = checked([shifted(tmp_path, rows)], most_rows=512)
    assert not report.complete and report.rows_read == 512
    assert found(report)["ids"][0] == 2


def test_a_deadline_is_kept_and_the_first_rows_are_read(tmp_path: Path) -> None:
    report = checked([shifted(tmp_path, [ids(seed) for seed in range(256 * 4)])], most_seconds=0.0)
    assert report.rows_read == 256 and not report.complete


def test_several_processes_see_what_one_sees(tmp_path: Path) -> None:
    rows = [ids(seed) for seed in range(256 * 6)]
    rows[900], rows[1300] = [VOCAB] * 17, rows[1]
    path = shifted(tmp_path, rows)
    one, two = checked([path]), checked([path], processes=2)
    assert found(one) == found(two) and one.lengths == two.lengths and two.processes == 2


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    path = shifted(tmp_path, [ids(seed) for seed in range(3000)])
    size = Path(path).stat().st_size
    with open(path, "r+b") as file:
        file.truncate(size - (1 << 16))
    with pytest.raises(UserError, match=r"row \d+: the file is cut short"):
        checked([path])
    assert open_record(path).rows == 3000


@given(st.integers(1, 10_000), st.integers(1, 64), st.integers(1, 40), st.booleans())
def test_shards_are_equal_and_complete(rows: int, ranks: int, batch: int, drop: bool) -> None:
    got = shards(rows, ranks, batch, drop)
    assert got.rows_per_rank * ranks - got.repeated == rows and 0 <= got.repeated < ranks
    assert got.steps_per_epoch * batch + got.dropped == got.rows_per_rank if drop else got.steps_per_epoch * batch >= got.rows_per_rank


@given(st.dictionaries(st.integers(0, 64), st.integers(1, 9)))
def test_every_row_is_in_the_histogram_once(lengths: dict[int, int]) -> None:
    assert sum(count for _, _, count in histogram(Counter(lengths), 64)) == sum(lengths.values())
    assert np.all(np.diff([low for low, _, _ in histogram(Counter(lengths), 64)]) > 0)
