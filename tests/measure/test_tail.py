"""Following files that others write: half lines, files that appear late, shrink, or were torn by a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindrecipe.measure.tail import LineTail, last_lines, trim_torn_line


def test_a_line_is_read_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    tail = LineTail(path)
    assert tail.read() == []
    with path.open("ab") as file:
        last = "rée\n".encode()
        for chunk, expected in ((b"on", []), (b"e\ntwo\nth", ["one", "two"]), (b"", []), (last[:2], []), (last[2:], ["thrée"])):
            file.write(chunk)
            file.flush()
            assert tail.read() == expected


def test_from_end_passes_over_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old\n")
    tail = LineTail(path, from_end=True)
    assert tail.read() == []
    path.write_text("old\nnew\n")
    assert tail.read() == ["new"]


def test_a_file_written_anew_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a long first line\nunfinished")
    tail = LineTail(path)
    tail.read()
    path.write_text("b\n")
    assert tail.read() == ["b"]


def test_bytes_that_are_not_utf8_do_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xff\xfe\n")
    assert LineTail(path).read() == ["��"]


@pytest.mark.parametrize(
    ("before", "after"), [("a\nb\n", "a\nb\n"), ("a\nhalf", "a\n"), ("half", ""), ("", ""), ("a\n" + "x" * 200_000, "a\n")]
)
def test_trim_cuts_exactly_the_torn_line(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "f"
    path.write_text(before)
    assert trim_torn_line(path) == len(before) - len(after)
    assert path.read_text() == after


def test_trim_of_a_missing_file_makes_none(tmp_path: Path) -> None:
    assert trim_torn_line(tmp_path / "f") == 0
    assert not (tmp_path / "f").exists()


def test_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert last_lines(path, 3) == []
    path.write_text("".join(f"line {number}\n\n" for number in range(100_000)))
    assert last_lines(path, 2) == ["line 99998", "line 99999"]
