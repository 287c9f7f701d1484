"""The picture of a plan: a stacked bar a stage against the device's memory, as SVG or PNG (matplotlib)."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from mindrecipe.plan.memory import GIB, Memory


def draw(held: Memory, title: str, path: Path) -> None:
    """Write the picture to ``path``; its suffix says which format."""
    from matplotlib.figure import Figure

    names = [name for name in held.stages[0].items if any(stage.items[name] for stage in held.stages)]
    figure = Figure(figsize=(max(6.0, 2.5 + 0.6 * len(held.stages)), 4.5), layout="constrained")
    axes = figure.add_subplot()
    floor = [0.0] * len(held.stages)
    for name in names:
        sizes = [stage.items[name] / GIB for stage in held.stages]
        axes.bar(range(len(sizes)), sizes, bottom=floor, label=name, width=0.7)
        floor = [low + size for low, size in zip(floor, sizes, strict=True)]
    axes.axhline(held.capacity / GIB, color="black", linestyle="--", linewidth=1, label=f"device, {held.capacity / GIB:.0f} GiB")
    axes.set_xticks(range(len(held.stages)), [str(stage.stage) for stage in held.stages])
    axes.set_xlabel("pipeline stage")
    axes.set_ylabel("GiB")
    axes.set_title("\n".join(wrap(title, 60)), fontsize=9, loc="left")
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(path)
