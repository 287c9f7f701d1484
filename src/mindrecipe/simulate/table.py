"""A simulation's report for a person: one table of ranks, one of what they send; plain text as wide as asked for."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table

from mindrecipe.measure.holdings import Held
from mindrecipe.simulate.collectives import Collective
from mindrecipe.simulate.report import RankReport, Report

GIB = 1 << 30
_COLLECTIVES = 8
_SLICES = 12


def text(report: Report, *, width: int, details: bool = False) -> list[str]:
    """The report as lines. ``details`` adds, for each rank, the slices it holds and its collectives."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    console.print(_ranks(report, width))
    console.print(verdict(report))
    for rank in report.ranks if details else ():
        console.print(f"rank {rank.rank}, stage {rank.stage}: slices", style="bold")
        console.print(_slices(rank.holdings.held))
        console.print(f"rank {rank.rank}, stage {rank.stage}: communication of one step", style="bold")
        console.print(_collectives(rank.collectives) if rank.collectives else "none")
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue().rstrip("\n").split("\n")


def verdict(report: Report) -> str:
    """One or two sentences: does it fit, and what is not in the figures."""
    most = max(report.ranks, key=lambda rank: rank.peak)
    peak = f"rank {most.rank} needs most: {gib(most.peak)} GiB"
    if report.limit is None:
        return f"{peak}; memory.max_device_memory is not set. {_APART}"
    room = report.limit - most.peak
    if report.fits:
        return f"fits: {peak} of {gib(report.limit)} (max_device_memory), {gib(room)} left. {_APART}"
    return f"does NOT fit: {peak}, {gib(-room)} more than the {gib(report.limit)} of max_device_memory. {_APART}"


_APART = "Not in these figures: workspace of operators and HCCL's buffers. Columns with 'here' are what simulating took on this host."


#: heading, unit, whether a narrow terminal has room for it
_COLUMNS = (
    ("rank", "", True),
    ("stage", "", True),
    ("parameters", "M", True),
    ("weights", "GiB", False),
    ("gradients", "GiB", False),
    ("states", "GiB", False),
    ("peak", "GiB", False),
    ("+fragments", "GiB", True),
    ("fits", "", True),
    ("operators", "", False),
    ("sent", "GiB", True),
    ("compile", "s here", False),
    ("host", "GiB here", False),
)
_NARROW = 130


def _ranks(report: Report, width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=_title(report), title_justify="left")
    size, name_of_size = _unit(report)
    shown = [column for column in _COLUMNS if column[2] or width >= _NARROW]
    for name, _, _ in shown:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*((name_of_size if unit == "GiB" else unit) for _, unit, _ in shown), style="dim")
    for rank in report.ranks:
        cells = _cells(rank, report.limit, size)
        table.add_row(*(cells[name] for name, _, _ in shown))
    return table


def _unit(report: Report) -> tuple[int, str]:
    """GiB, but for models so small that all would be 0.00."""
    return (GIB, "GiB") if max(rank.peak for rank in report.ranks) >= GIB // 4 else (1 << 20, "MiB")


def _cells(rank: RankReport, limit: int | None, size: int) -> dict[str, str]:
    held, fits = rank.holdings, rank.fits(limit)
    return {
        "rank": str(rank.rank),
        "stage": str(rank.stage),
        "parameters": f"{held.elements_of('weight') / 1e6:,.1f}",
        "weights": f"{held.bytes_of('weight') / size:.2f}",
        "gradients": f"{held.bytes_of('gradient') / size:.2f}",
        "states": f"{held.bytes_of('state') / size:.2f}",
        "peak": f"{held.peak_bytes / size:.2f}",
        "+fragments": f"{rank.peak / size:.2f}",
        "fits": "" if fits is None else "yes" if fits else "NO",
        "operators": f"{rank.operators:,}",
        "sent": f"{sum(each.total for each in rank.collectives) / size:.2f}",
        "compile": f"{held.compile_seconds:.0f}",
        "host": gib(rank.host_bytes),
    }


def _title(report: Report) -> str:
    stages = f", {report.stages} stages" if report.stages > 1 else ""
    return f"{report.title}: {len(report.ranks)} of {report.device_num} ranks on simulated {report.device}{stages}"


def _slices(held: Iterable[Held]) -> Table:
    """The weights, largest first, those of layers that are alike as one line."""
    table = Table("weight", "shape", "here", "dtype", box=box.SIMPLE_HEAD, pad_edge=False)
    alike: dict[tuple[str, tuple[int, ...], tuple[int, ...], str], int] = {}
    for each in held:
        if each.kind == "weight":
            name = ".".join("*" if part.isdigit() else part for part in each.name.split("."))
            key = (name, each.full, each.shape, each.dtype)
            alike[key] = alike.get(key, 0) + each.bytes
    largest = sorted(alike.items(), key=lambda item: -item[1])
    for (name, full, shape, dtype), _ in largest[:_SLICES]:
        table.add_row(name, str(list(full)), str(list(shape)), dtype)
    if len(largest) > _SLICES:
        table.add_row(f"... {len(largest) - _SLICES} more in simulation.json")
    return table


def _collectives(found: tuple[Collective, ...]) -> Table:
    table = Table("operator", "ranks", "tensor", "times", "MiB a step", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in found[:_COLLECTIVES]:
        table.add_row(each.operator, _members(each.ranks), f"{each.dtype} {each.shape}", str(each.count), f"{each.total / 2**20:,.1f}")
    if len(found) > _COLLECTIVES:
        rest = sum(each.total for each in found[_COLLECTIVES:])
        table.add_row(f"... {len(found) - _COLLECTIVES} kinds more", "", "", "", f"{rest / 2**20:,.1f}")
    return table


def _members(ranks: tuple[int, ...]) -> str:
    return " ".join(map(str, ranks)) if len(ranks) <= 4 else f"{ranks[0]} {ranks[1]} ... {ranks[-1]} ({len(ranks)})"


def gib(size: int) -> str:
    """Bytes as GiB, two digits behind the point."""
    return f"{size / GIB:.2f}"
