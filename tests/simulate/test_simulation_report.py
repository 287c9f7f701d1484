"""What ranks leave, as reports, kept and shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import simulation_samples as samples

from mindrecipe.measure import holdings
from mindrecipe.simulate import report, table

LOG = """[WARNING] DEVICE(1,7f,python): DeInitialize] Ascend Memory Adapter deinitialize success, statistics:
Device MOC memory size: 65536M
Used peak memory usage (without fragments): 700M
Actual peak memory usage (with fragments): 708M
"""


def _left(run: Path, log: str = LOG) -> None:
    (run / "logs").mkdir(parents=True)
    (run / "logs/rank_0.log").write_text(log)
    holdings.write(samples.holdings(), run / "simulation/rank_0.holdings.json")


def test_a_rank_is_read_from_what_it_left(tmp_path: Path) -> None:
    (tmp_path / "simulation").mkdir()
    _left(tmp_path)
    taken = report.take(0, 0, tmp_path, seconds=31.0, host_bytes=5)
    assert taken.holdings == samples.holdings()
    assert taken.peak == 708 * report.MIB
    assert taken.collectives == ()


@pytest.mark.parametrize("below", ["", "rank_0"], ids=["one process", "several ranks"])
def test_operators_are_found_where_mindspore_puts_them(tmp_path: Path, below: str) -> None:
    (tmp_path / "simulation").mkdir()
    _left(tmp_path)
    order = tmp_path / "scratch/rank_0" / below / "execute_order"
    order.mkdir(parents=True)
    (order / "execute_order.csv").write_text("index,node_name\n1,a\n2,b\n")
    assert report.take(0, 0, tmp_path, seconds=1, host_bytes=1).operators == 2


def test_a_log_without_the_peak_is_no_report(tmp_path: Path) -> None:
    (tmp_path / "simulation").mkdir()
    _left(tmp_path, "killed")
    with pytest.raises(ValueError, match="peak memory"):
        report.take(0, 0, tmp_path, seconds=1, host_bytes=1)


def test_a_kept_report_comes_back_and_says_so(tmp_path: Path) -> None:
    report.save(samples.rank_report(), tmp_path, tmp_path / "deep/rank_0.json")
    assert report.load(tmp_path / "deep/rank_0.json") == dataclasses.replace(samples.rank_report(), reused=True)
    assert report.load(tmp_path / "rank_1.json") is None


def test_bytes_of_what_is_held() -> None:
    held = samples.holdings()
    assert (held.elements_of("weight"), held.bytes_of("weight")) == (512 * 1024, 2 << 20)
    assert held.bytes_of("state") == 1 << 20


@pytest.mark.parametrize(
    ("limit", "fits", "word"), [(1024, True, "fits: rank 4"), (800, False, "does NOT fit: rank 4"), (None, None, "not set")]
)
def test_the_verdict(limit: int | None, fits: bool | None, word: str) -> None:
    made = samples.report(None if limit is None else limit * report.MIB)
    assert made.fits is fits
    assert word in table.verdict(made)
    assert json.loads(json.dumps(report.as_plain(made)))["fits"] is fits


@pytest.mark.parametrize("width", [60, 160])
def test_the_table_has_a_line_a_rank_and_keeps_to_its_width(width: int) -> None:
    lines = table.text(samples.report(), width=width, details=True)
    assert max(map(len, lines)) <= width
    said = "\n".join(lines)
    assert "AllReduce" in said
    assert ("2,323" in said) == (width > 100)
    assert "0.89" in said  # GiB, of rank 4
