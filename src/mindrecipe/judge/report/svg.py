"""Small drawings as inline SVG: curves, a stacked bar, a heat map. Sizes are those of a viewBox: the page scales them.

Colours are CSS variables (--s0 to --s5, --grid, --ink), so that the page decides, also for dark screens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 360, 190  # about the pixels of a card on a phone: letters keep their size
_RIGHT, _TOP, _BOTTOM = 10, 10, 26
_LETTER = 6.6  # the width of one, at the size of the page's style
COLOURS = 6
Points = Sequence[tuple[float, float]]


def curves(series: Mapping[str, Points], *, unit_x: str = "step") -> str:
    """One line a series over a common grid; each point carries nothing, the line its name as a tooltip. Empty text for no points."""
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low_x, high_x = min(xs), max(xs)
    least, most = _widened(min(ys), max(ys))
    ticks = nice_ticks(least, most)
    low_y, high_y = min(ticks[0], least), max(ticks[-1], most)

    marks = labels(ticks)
    left = 12 + _LETTER * max(map(len, marks))

    def place(x: float, y: float) -> str:
        across = (x - low_x) / (high_x - low_x or 1)
        up = (y - low_y) / (high_y - low_y or 1)
        return f"{left + across * (WIDTH - left - _RIGHT):.1f},{HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM):.1f}"

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for tick, label in zip(ticks, marks, strict=True):
        y = place(low_x, tick).split(",")[1]
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{left - 6:.1f}" y="{y}" dy="4" text-anchor="end">{label}</text>')
    for x, anchor in ((low_x, "start"), (high_x, "end")):
        parts.append(f'<text x="{place(x, low_y).split(",")[0]}" y="{HEIGHT - 8}" text-anchor="{anchor}">{x:.4g}</text>')
    parts.append(f'<text x="{(WIDTH + left) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(unit_x)}</text>')
    for number, (name, line) in enumerate(series.items()):
        path = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline class="s{number % COLOURS}" points="{path}"><title>{escape(name)}</title></polyline>')
    return "".join([*parts, "</svg>"])


#: a curve that moves by less than this share of itself is drawn as the nearly flat line that it is
_FLAT = 0.05


def _widened(least: float, most: float) -> tuple[float, float]:
    room = (_FLAT * max(abs(least), abs(most)) - (most - least)) / 2
    return (least - room, most + room) if room > 0 else (least, most)


def labels(ticks: Sequence[float]) -> list[str]:
    """The ticks as short as they can be, and no two alike."""
    digits = next((digits for digits in range(4, 17) if len({f"{tick:.{digits}g}" for tick in ticks}) == len(ticks)), 17)
    return [f"{tick:.0f}" if 1e4 <= abs(tick) < 1e6 and tick == round(tick) else f"{tick:.{digits}g}" for tick in ticks]


#: below it, quotients of floats lose their digits
_TINY = 1e-290


def nice_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """About ``count`` round numbers that span from low to high; what differs by no more than rounding is one value with room around it."""
    largest = max(abs(low), abs(high))
    if high - low <= max(1e-12 * largest, _TINY):
        span = largest if largest > _TINY else 1.0
        low, high = low - span / 2, high + span / 2
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9) * step
    return [first + place * step for place in range(int((high - first) / step + 1e-9) + 1)] or [low]


def stacked_bar(shares: Mapping[str, float]) -> str:
    """A bar of shares that add up to one, with what each is in a tooltip."""
    parts, x = [f'<svg viewBox="0 0 {WIDTH} 28" role="img">'], 0.0
    for number, (name, share) in enumerate(shares.items()):
        width = WIDTH * share
        parts.append(
            f'<rect class="f{number % COLOURS}" x="{x:.2f}" y="2" width="{width:.2f}" height="24">'
            f"<title>{escape(name)}: {100 * share:.1f} %</title></rect>"
        )
        x += width
    return "".join([*parts, "</svg>"])


def heat_map(rows: Mapping[str, Sequence[float | None]], *, unit: str, columns: Sequence[str] = ()) -> str:
    """A row of cells for each name, under the names of ``columns``; the darker the more. The whole scale is used between the least and the
    largest value, which are told below."""
    known = [value for row in rows.values() for value in row if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    longest = max(len(row) for row in rows.values())
    top = 20 if columns else 2
    height, left = top + 22 * len(rows) + 18, 12 + _LETTER * max(map(len, rows))
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for place, name in enumerate(columns):
        middle = left + (place + 0.5) * (WIDTH - left - _RIGHT) / longest
        parts.append(f'<text x="{middle:.1f}" y="14" text-anchor="middle">{escape(name)}</text>')
    for number, (name, row) in enumerate(rows.items()):
        y = top + 22 * number
        parts.append(f'<text x="{left - 6}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        width = (WIDTH - left - _RIGHT) / longest
        for place, value in enumerate(row):
            if value is None:
                continue
            strength = (value - low) / (high - low) if high > low else 0.0
            parts.append(
                f'<rect class="heat" style="fill-opacity:{0.08 + 0.92 * strength:.3f}" x="{left + place * width:.2f}" y="{y}" '
                f'width="{width:.2f}" height="20"><title>{escape(name)}: {value:.3g} {escape(unit)}</title></rect>'
            )
    scale = f"light {low:.3g}, dark {high:.3g} {unit}"
    parts.append(f'<text x="{WIDTH - _RIGHT}" y="{height - 4}" text-anchor="end">{escape(scale)}</text>')
    return "".join([*parts, "</svg>"])
