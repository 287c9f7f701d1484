"""How `mindrecipe plan` is shown: bars of memory, times, traffic, advice, ranked layouts, published rows. Plain lines where it is piped."""

from __future__ import annotations

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from mindrecipe.config.findings import Finding
from mindrecipe.config.schema import RunConfig
from mindrecipe.plan import balance
from mindrecipe.plan.advice import offset, per_stage
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.explained import Explained, told
from mindrecipe.plan.job import Job
from mindrecipe.plan.memory import GIB, LayerMemory, Memory, StageMemory
from mindrecipe.plan.overrides import overrides
from mindrecipe.plan.published import Priced
from mindrecipe.plan.search import Candidate, Found
from mindrecipe.plan.space import Space

_COLOURS = ("blue", "cyan", "magenta", "green", "yellow", "red", "bright_blue", "bright_cyan", "bright_magenta", "white")
_LETTERS = {
    "parameters": "p", "gradients": "g", "fp32 masters": "m", "optimizer state": "o", "working copies": "w", "activations": "a",
    "masks": "s", "logits and loss": "l", "workspace": "k", "communication": "c", "optimizer step": "u",
    "fragmentation": "f", "reserve": "r",
}  # fmt: skip
_FIXED = "\N{NO-BREAK SPACE}"
_NARROW = 80  # columns of a terminal below which tables stand closer


def _console() -> Console:
    return Console(highlight=False, markup=False, soft_wrap=False)


def show_plan(plan: Explained, name: str, stops: list[Finding]) -> None:
    """One job, priced whole; ``stops``: what of it would not start."""
    console, job = _console(), plan.job
    console.print(Text(f"{name} on {job.layout.devices} x {job.device.title}", "bold"), soft_wrap=True)
    console.print(plan.layout, soft_wrap=True)
    console.print()
    _bars(console, plan.memory)
    console.print()
    _items(console, plan.memory)
    console.print()
    _time(console, plan)
    console.print(Text(f"figures of the device: {job.device.source}", "dim"), soft_wrap=True)
    console.print()
    for stop in stops:
        console.print(Text.assemble(("stop", "red"), f"  this would not start: {stop.what}"), soft_wrap=True)
        console.print(Text(f"        why:  {stop.why}", "dim"), soft_wrap=True)
        if stop.mend:
            console.print(f"        mend: {stop.mend}", soft_wrap=True)
    for advice in plan.advice:
        mark, style = ("ok  ", "green") if advice.good else ("look", "yellow")
        console.print(Text.assemble((mark, style), f"  {advice.name}: {advice.what}"), soft_wrap=True)
        if not advice.good:
            console.print(Text(f"        why:  {advice.why}", "dim"), soft_wrap=True)
            if advice.mend:
                console.print(f"        mend: {advice.mend}", soft_wrap=True)


def _used(held: Memory) -> list[str]:
    return [name for name in held.stages[0].items if any(stage.items[name] > 0 for stage in held.stages)]


def _bars(console: Console, held: Memory) -> None:
    """A bar a stage: each letter (or colour) is an item; | marks the device's memory."""
    names = _used(held)
    width = max(20, min(console.width, 100) - 24)
    most = max(held.capacity, held.peak.total)
    for stage in held.stages:
        bar, drawn, so_far = Text(), 0, 0.0
        for number, name in enumerate(names):
            so_far += stage.items[name]
            cells = round(so_far / most * width) - drawn
            letter = _LETTERS[name]
            colour = _COLOURS[number % len(_COLOURS)]
            bar.append(("█" if console.is_terminal else letter) * cells, colour)
            drawn += cells
        limit = round(held.capacity / most * width)
        bar.append("·" * max(0, limit - drawn), "dim")
        if limit >= drawn:
            bar.append("|", "bold")
        over = stage.total > held.capacity
        line = Text.assemble(f"stage {stage.stage:<3} ", bar, (f" {stage.total / GIB:6.1f} GiB", "bold red" if over else "bold"))
        console.print(line, no_wrap=True, overflow="crop")
    key = Text("          ")
    for number, name in enumerate(names):
        key.append("█" if console.is_terminal else _LETTERS[name], _COLOURS[number % len(_COLOURS)])
        key.append(f"{_FIXED}{name.replace(' ', _FIXED)}  ")
    console.print(key)
    verdict = (
        f"{100 * held.headroom:.0f} % free" if held.fits else f"does not fit: {(held.peak.total - held.capacity) / GIB:.1f} GiB too much"
    )
    console.print(f"          | device: {held.capacity / GIB:.0f} GiB; fullest is stage {held.peak.stage}: {verdict}", soft_wrap=True)


def _items(console: Console, held: Memory) -> None:
    """Items in GiB, for the stages that differ: the first, the fullest and the last; all where there are few."""
    shown = list(held.stages) if len(held.stages) <= 6 else _telling(held)
    rows = [(name, [stage.items[name] / GIB for stage in shown]) for name in _used(held)]
    rows.append(("total", [stage.total / GIB for stage in shown]))
    _table(
        console,
        ["GiB", *(f"stage {stage.stage}" for stage in shown)],
        [["layers", *(str(stage.layers) for stage in shown)], ["parameters (M)", *(f"{stage.parameters / 1e6:,.0f}" for stage in shown)]]
        + [[name, *(f"{size:.2f}" for size in sizes)] for name, sizes in rows],
    )


def _telling(held: Memory) -> list[StageMemory]:
    wanted = sorted({0, 1, held.peak.stage, len(held.stages) - 2, len(held.stages) - 1})
    return [held.stages[index] for index in wanted]


def _time(console: Console, plan: Explained) -> None:
    time = plan.time
    if time is None:
        console.print(f"time is not known: {plan.unpriced}", soft_wrap=True)
        return
    band = f"± {100 * time.band:.0f} %"
    console.print(
        f"step {time.step:.2f} s {band}: {time.tokens_per_s:,.0f} tokens/s/device, MFU {100 * time.mfu:.0f} %, HFU {100 * time.hfu:.0f} %, "
        f"bubble {100 * time.bubble:.0f} %",
        soft_wrap=True,
    )
    rows = [[name, f"{size:.3f}", f"{100 * size / time.step:.0f} %"] for name, size in time.items.items() if size > 0]
    _table(console, ["seconds of a step", "s", "share"], rows)
    if time.collectives:
        console.print()
        moved = [
            [each.name, each.link, f"{each.times:,.0f}", f"{each.bytes / 1e9:,.2f}", f"{each.seconds:.3f}"] for each in time.collectives
        ]
        _table(console, ["traffic of a rank and step", "over", "times", "GB", "s at link speed"], moved)


def show_layers(layers: list[LayerMemory]) -> None:
    """The table by layer."""
    console = _console()
    console.print()
    rows = [
        [
            str(layer.index),
            str(layer.stage),
            layer.kind,
            layer.recompute,
            f"{layer.parameters / 1e6:,.1f}",
            f"{layer.states / 2**20:,.0f}",
            f"{layer.activations / 2**20:,.0f}",
        ]
        for layer in layers
    ]
    _table(console, ["layer", "stage", "kind", "recompute", "parameters (M)", "states (MiB)", "activations in flight (MiB)"], rows)


def show_found(found: Found, space: Space, base: Job, written: RunConfig) -> None:
    """Ranked layouts with their overrides for the words of ``written``, and why the others fell out."""
    console = _console()
    console.print(
        f"{found.considered:,} layouts of {space.devices} x {base.device.title}, global batch {space.global_batch}, "
        f"{100 * space.headroom:.0f} % of the memory kept free",
        soft_wrap=True,
    )
    for place, candidate in enumerate(found.best, 1):
        time = candidate.time
        console.print()
        console.print(Text(f"{place}. {told(candidate.job)}", "bold"), soft_wrap=True)
        console.print(
            f"   {time.tokens_per_s:,.0f} tokens/s/device ± {100 * time.band:.0f} %, step {time.step:.2f} s, MFU {100 * time.mfu:.0f} %, "
            f"{candidate.peak / GIB:.1f} of {base.device.memory_gb or 0:.0f} GiB",
            soft_wrap=True,
        )
        console.print(f"   because: {_because(candidate, found)}", soft_wrap=True)
        console.print(Text(f"   {overrides(candidate.job, written)}", "dim"), soft_wrap=True)
        if place == 1:
            _refined(console, candidate, space)
    if not found.best:
        console.print("nothing fits", style="bold red")
        if found.smallest:
            job, size = found.smallest
            console.print(f"the smallest needs {size / GIB:.0f} GiB: {told(job)}", soft_wrap=True)
    console.print()
    console.print("fell out:")
    for reason, count in found.fell_out.most_common():
        console.print(f"  {count:>10,}  {reason}", soft_wrap=True)


def _refined(console: Console, candidate: Candidate, space: Space) -> None:
    """What the search does not go through and would make its best faster still."""
    room = (1 - space.headroom) * (candidate.job.device.memory_gb or 0) * GIB
    efficiency = efficiency_of(candidate.job)
    for better, words in (
        (balance.uneven(candidate.job, efficiency, room), offset),
        (balance.partly(candidate.job, efficiency, room), per_stage),
    ):
        if better is not None and better.step < 0.99 * candidate.time.step:
            console.print(f"   better still: {words(better.job)}: step {better.step:.2f} s, {better.peak / GIB:.1f} GiB", soft_wrap=True)


def _because(candidate: Candidate, found: Found) -> str:
    """Where its time goes beside matrix multiplications, against the best."""
    time, best = candidate.time, found.best[0].time
    lost = {name: size / time.step for name, size in time.items.items() if name != "matrix multiplications" and size / time.step > 0.01}
    words = [f"{name} {100 * share:.0f} %" for name, share in sorted(lost.items(), key=lambda item: -item[1])]
    slower = time.step / best.step - 1
    behind = f"{100 * slower:.1f} % slower than the first; " if slower > 0 else ""
    return behind + "beside matrix multiplications " + ", ".join(words)


def show_published(rows: list[Priced]) -> None:
    """A line a row: predictions, stated figures, the verdict, what is not priced."""
    console = _console()
    table = []
    for row in rows:
        note = row.claim or "; ".join(row.refused)
        table.append(
            [
                str(row.row),
                row.model[:28],
                _figure(row.memory_gib, 1),
                _figure(row.stated_memory, 1),
                _figure(row.tokens_per_s, 0),
                _figure(row.stated_tokens, 0),
                row.verdict,
                note,
            ]
        )
    _table(console, ["row", "model", "GiB", "stated", "tokens/s", "stated", "verdict", "not priced"], table)
    verdicts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in dict.fromkeys(row.verdict for row in rows)}
    console.print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()), soft_wrap=True)


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _table(console: Console, head: list[str], rows: list[list[str]]) -> None:
    """A table; tab-separated where the output is no terminal, so that it can be cut."""
    if not console.is_terminal:
        for row in [head, *rows]:
            print("\t".join(row))
        return
    narrow = console.width < _NARROW
    table = Table(box=None, pad_edge=False, padding=(0, 1 if narrow else 2, 0, 0))
    for number, column in enumerate(head):
        side: JustifyMethod = "left" if number == 0 or (number == len(head) - 1 and len(head) > 7) else "right"
        # headings break between words, where rich would break within them
        table.add_column(column.replace(" ", "\n") if narrow and number else column, justify=side, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
