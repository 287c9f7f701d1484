"""Figures in few characters."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mindrecipe.measure.view import text


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (text.duration, 0.4, "0:00"),
        (text.duration, 59.6, "1:00"),
        (text.duration, 760, "12:40"),
        (text.duration, 11100, "3:05:00"),
        (text.duration, 2 * 86400 + 3 * 3600, "2d 03:00"),
        (text.duration, -5, "0:00"),
        (text.seconds, 0.0042, "4.2 ms"),
        (text.seconds, 0.0431, "43 ms"),
        (text.seconds, 0.9996, "1.00 s"),
        (text.seconds, 1.239, "1.24 s"),
        (text.seconds, 12.34, "12.3 s"),
        (text.seconds, 123.4, "123 s"),
        (text.quantity, 980, "980"),
        (text.quantity, 0.5, "0.500"),
        (text.quantity, 999.6, "1.00k"),
        (text.quantity, 12345, "12.3k"),
        (text.quantity, 123456, "123k"),
        (text.quantity, 4.56e6, "4.56M"),
        (text.quantity, 7.8e9, "7.80G"),
        (text.quantity, 5e13, "50T"),
        (text.quantity, math.nan, "nan"),
        (text.size, 512, "512 B"),
        (text.size, 1500, "1.46 KiB"),
        (text.size, 1000 * 2**20, "1000 MiB"),
        (text.size, int(1.21 * 2**30), "1.21 GiB"),
        (text.size, 3 * 2**40, "3.00 TiB"),
        (text.tflops, 312.4, "312 TFLOP/s"),
        (text.tflops, 0.0123, "12.3 GFLOP/s"),
        (text.loss, 5.55569, "5.5557"),
        (text.loss, math.nan, "nan"),
    ],
)
def test_figures(function: object, value: float, shown: str) -> None:
    assert callable(function)
    assert function(value) == shown


def test_paths_are_relative_inside_the_current_folder_only(tmp_path: Path) -> None:
    assert text.shown_path(tmp_path / "a" / "b", tmp_path) == "a/b"
    assert text.shown_path(tmp_path.parent / (tmp_path.name + "x"), tmp_path) == str(tmp_path) + "x"
    assert text.shown_path("rel/a", tmp_path) == "rel/a"
    assert text.shown_path("/a", Path("/")) == "a"


def test_cutting_keeps_the_end() -> None:
    assert text.cut_left("abcdef", 6) == "abcdef"
    assert text.cut_left("abcdef", 4) == "…def"
    assert text.cut_left("abcdef", 5, ascii_only=True) == "...ef"
    assert text.cut_left("abcdef", 1) == "f"
    assert text.cut_left("abcdef", 0) == ""


def test_sparkline() -> None:
    assert text.sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert text.sparkline([8.0, 8.0, 0.0, 0.0], 2) == "█▁"
    assert text.sparkline([3.0, 3.0], 10) == "▁▁"
    assert text.sparkline([1.0, math.nan, 2.0], 3) == "▁!█"
    assert text.sparkline([math.inf], 3) == "!"
    assert text.sparkline([1.0, 2.0], 2, ascii_only=True) == "_#"
    assert text.sparkline([], 5) == text.sparkline([1.0], 0) == ""
    assert len(text.sparkline(list(range(1000)), 37)) == 37
