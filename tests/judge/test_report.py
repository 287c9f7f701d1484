"""The report: whole, self-contained, readable at the width of a phone; the same content as Markdown and JSON."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import profile_samples
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from runs import make, steps, usage

from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.report import svg
from mindrecipe.judge.report.page import page
from mindrecipe.judge.report.sheet import POINTS, sheet, thinned
from mindrecipe.measure.record import RankStep

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "line", "rect", "polyline", "br", "i"}


class Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"


@pytest.fixture
def two(tmp_path: Path) -> list[Recorded]:
    ranks = {
        rank: [RankStep(step=n, time=1.0 * n, data_time=0.01 * (rank + 1), compute_time=0.2, other_time=0.0) for n in range(1, 200)]
        for rank in (0, 1)
    }
    samples = [usage(float(second), disk_write=1e6 * second) for second in range(0, 60, 5)]
    first = [*steps(200, seed=1, grad_groups={"tok_embeddings": 0.1, "layers.0": 0.2}, update_ratio=0.01)]
    one = make(tmp_path / "one <b>&", first, ranks=ranks, samples=samples)
    tries = [{"number": 1, "from_step": 0}, {"number": 2, "from_step": 120}]
    (one / "attempts.jsonl").write_text("".join(f"{json.dumps(attempt)}\n" for attempt in tries))
    profile_samples.cpu(one)
    profile_samples.pool(one, allocated=40.0, reserved=50.0)
    profile_samples.matrix(one)
    other = make(tmp_path / "other", [*steps(150, seed=2, slow=1.2, loss_scale=2.0)])
    return [Recorded(one), Recorded(other)]


def test_the_page_is_whole_and_needs_nothing_else(two: list[Recorded]) -> None:
    text = page(sheet(two))
    checker = Checker()
    checker.feed(text)
    assert checker.open == [] and checker.links == [] and "script" not in checker.seen
    assert not re.search(r"https?:|@import|url\(", text)
    assert checker.seen.count("svg") >= 8 and checker.seen.count("polyline") >= 12 and checker.seen.count("details") == 6
    assert "one &lt;b&gt;&amp;" in text and "<b>" not in text
    for word in (
        "where the time of a step goes",
        "rank 1",
        "by layer",
        "tok_embeddings",
        "disk write",
        "throughput",
        "verdict",
        "from step 120",
    ):
        assert word in text
    assert len(text) < 300_000


def test_a_run_without_anything_still_has_a_page(tmp_path: Path) -> None:
    path = make(tmp_path / "bare", [])
    for name in ("summary.json", "metrics.jsonl", "config.yaml"):
        (path / name).unlink()
    text = page(sheet([Recorded(path)]))
    assert "unfinished" in text and "<polyline" not in text


def test_a_curve_with_losses_that_are_no_numbers(tmp_path: Path) -> None:
    records = [replace(record, loss=math.nan if record.step > 30 else record.loss) for record in steps(35)]
    text = page(sheet([Recorded(make(tmp_path / "broken", records))]))
    assert "<polyline" in text and "nan" not in re.sub(r"<details>.*?</details>|<dd.*?</dd>", "", text, flags=re.DOTALL)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: chromium)")
@pytest.mark.e2e
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(two: list[Recorded], tmp_path: Path, width: int) -> None:
    """Measured by the browser itself, in a frame of that width: its window has a least width of its own."""
    script = (
        "const d=f.contentDocument,e=d.documentElement;const out=[...d.querySelectorAll('svg')].filter(s=>{const r=s.getBoundingClientRect();"
        "return r.right>e.clientWidth+1||r.width<100}).length"
        "+[...d.querySelectorAll('body>.wide')].filter(t=>t.scrollWidth>t.clientWidth+1).length;document.title='W '+e.scrollWidth+' '+e.clientWidth+' '+out"
    )
    copy = tmp_path / "page.html"
    frame = f'<iframe id="f" style="border:0;width:{width}px;height:900px" onload="{escape(script)}" srcdoc="{escape(page(sheet(two)))}">'
    copy.write_text(f"<title></title><body>{frame}</iframe></body>")
    if subprocess.run([str(CHROMIUM), "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the Chromium of this machine does not start")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,2000", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([str(CHROMIUM), *flags, "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=500, check=True)
    found = re.search(r"<title>W (\d+) (\d+) (\d+)</title>", done.stdout)
    assert found is not None, done.stderr[-2000:]
    whole, seen, outside = map(int, found.groups())
    assert whole <= seen and width - 20 <= seen <= width and outside == 0


def test_the_command_writes_every_format(two: list[Recorded], here: Path, mindrecipe: Callable[..., Any]) -> None:
    paths = [str(run.path) for run in two]
    done = mindrecipe("report", *paths)
    assert done.code == 0 and done.out.strip() == "report.html" and (here / "report.html").read_text().startswith("<!doctype html>")
    text = mindrecipe("report", *paths, "--format", "md").out
    assert "| final loss |" in text and "against" in text and "| throughput |" in text
    told = json.loads(mindrecipe("report", *paths, "--format", "json").out)
    assert len(told["runs"]) == 2 and told["comparisons"][0]["verdict"] and told["runs"][0]["curves"]["loss"]
    assert mindrecipe("report", *paths, "-o", "out/report.md").code == 0 and (here / "out/report.md").is_file()
    for words in (("last",), (*paths, "-o", "a.pdf"), (*paths, "-o", "/proc/nowhere/a.html")):
        assert mindrecipe("report", *words).code == 2


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-1e6, 1e6) | st.just(math.nan)), max_size=3 * POINTS))
def test_thinned_curves_are_short_and_stay_inside(points: list[tuple[float, float]]) -> None:
    found = thinned(points)
    values = [value for _, value in points if math.isfinite(value)]
    assert len(found) <= POINTS and bool(found) == bool(values)
    assert all(min(values) - 1e-6 <= value <= max(values) + 1e-6 for _, value in found)


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
@example(0.0, 5e-324)
@example(1e9, math.nextafter(1e9, math.inf))
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    low, high = sorted((low, high))
    ticks = svg.nice_ticks(low, high)
    assert 1 <= len(ticks) <= 9
    assert len(set(svg.labels(ticks))) == len(set(ticks)), "each tick has a label of its own"
    if high - low > 1e-6 * max(abs(low), abs(high), 1e-6):
        assert all(low - (high - low) <= tick <= high + (high - low) for tick in ticks)
