"""Which ranks are simulated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindrecipe.errors import UserError
from mindrecipe.simulate.ranks import ALL, FIRST_OF_EACH_STAGE, chosen, stage_of


@given(stages=st.integers(1, 32), per_stage=st.integers(1, 512))
def test_the_first_of_each_stage_are_one_rank_of_every_stage(stages: int, per_stage: int) -> None:
    ranks = chosen(FIRST_OF_EACH_STAGE, stages * per_stage, stages)
    assert [stage_of(rank, stages * per_stage, stages) for rank in ranks] == list(range(stages))
    assert all(rank == 0 or stage_of(rank - 1, stages * per_stage, stages) < stage_of(rank, stages * per_stage, stages) for rank in ranks)


def test_all_and_lists() -> None:
    assert chosen(ALL, 4, 2) == (0, 1, 2, 3)
    assert chosen("5, 0,2-3,3", 8, 2) == (0, 2, 3, 5)


@pytest.mark.parametrize(
    ("asked", "says"), [("", "names no ranks"), ("a", "names no ranks"), ("5-2", "names no ranks"), ("0,8", "no rank 8")]
)
def test_what_names_no_rank_is_refused(asked: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as fault:
        chosen(asked, 8, 2)
    assert fault.value.mend
