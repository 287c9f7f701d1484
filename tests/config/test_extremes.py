"""Numbers at the ends of what their types hold: each is taken, or refused in words."""

from __future__ import annotations

import pytest

from mends import LARGE, TINY, findings, quick
from mindrecipe.config.keys import knobs

pytestmark = pytest.mark.usefixtures("here")
NUMBERS = sorted(key for key, knob in knobs().items() if "float" in str(knob.type) or "int" in str(knob.type))


@pytest.mark.parametrize("base", [(TINY, "device=cpu"), LARGE], ids=["tiny", "large"])
@pytest.mark.parametrize("key", NUMBERS)
def test_the_largest_and_the_smallest_number(key: str, base: tuple[str, ...]) -> None:
    for value in ("1.7976931348623157e308", "5e-324", "9223372036854775807", "-9223372036854775808", "1"):
        findings(*base, f"{key}={value}", make=quick)
