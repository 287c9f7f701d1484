"""`train --help`: groups with their options, the recipes, and commands to start from."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindrecipe.config.options import groups, options
from mindrecipe.config.search_path import GROUP

EXAMPLES = (
    ("train +model=llama2_tiny", "train here, now, on real text"),
    ("train +model=llama2_tiny schedule.total_steps=50 optimizer.learning_rate=1e-3", "any knob by its name"),
    ("train +model=llama2_tiny parallel=data launch.workers=2", "two ranks through msrun"),
    ("train +model=qwen3_tiny amp=O1", "mindformers' mcore architecture, mixed precision"),
    ("train +recipe=tiny_cpu checkpoint=steps checkpoint.save_steps=100", "a whole run under one name, with checkpoints"),
    ("train +recipe=tiny_cpu checkpoint.resume=auto", "go on from the newest checkpoint, if there is one"),
    ("train +model=llama2_tiny dataset=text 'dataset.files=[\"docs/**/*.txt\"]'", "your own text"),
    ("train +model=llama2_tiny --multirun schedule=cosine,wsd optimizer.learning_rate=1e-3,3e-3", "a sweep, each job its own run"),
    ("train +recipe=tiny_cpu --cfg job", "print the composed configuration and stop"),
    ("train +model=llama2_7b parallel=semi_auto amp=O2", "8 x Ascend 910B; elsewhere says what is missing"),
)


def print_help() -> None:
    """Print the help; in a pipe without colours and without wrapping."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print("Usage: train +model=NAME | +recipe=NAME [GROUP=OPTION]... [SECTION.KNOB=VALUE]... [--multirun]\n")
    console.print("Composes a run from options and knobs, checks it, freezes it to a run directory, and trains it.\n")
    console.print(Text("Groups and options", style="bold"))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for group in (*(name for name in groups() if name != GROUP), GROUP):
        table.add_row(f"{'+' if group in ('model', GROUP) else ''}{group}", ", ".join(options(group)))
    console.print(table)
    console.print(Text("\nExamples", style="bold"))
    for command, what in EXAMPLES:
        console.print(Text.assemble("  ", (command, "cyan"), f"\n      {what}"))
    console.print(Text("\nFlags", style="bold"))
    for flag, what in (
        ("--cfg job|all, --info [defaults|searchpath|...]", "print the configuration, or how it is found, and stop"),
        ("--multirun, -m", "run every combination of the comma-separated values"),
        ("--config-dir DIR", "look for options in DIR first, then in ./conf and ./recipes, then in the shipped ones"),
        ("--strict", "take warnings for errors"),
        ("--hydra-help, --version", "Hydra's own flags; the version"),
    ):
        console.print(Text.assemble("  ", (flag, "cyan"), f"\n      {what}"))
    console.print("\n`mindrecipe ls` says what each option is for, `mindrecipe show` lists every knob.")
    console.print('Tab completion: eval "$(train -sc install=bash)"')
