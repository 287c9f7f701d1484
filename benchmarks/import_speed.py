"""How many mindformers YAMLs a second are imported and written as recipes, on one core, next to parsing them alone.

    python benchmarks/import_speed.py path/to/configs/**/*.yaml

Files that are no training of a language model count as well: they are read and refused.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from mindrecipe.bridge.importer import import_file
from mindrecipe.bridge.write import recipe_text
from mindrecipe.errors import UserError


def parse(path: Path) -> None:
    """What PyYAML needs for the file, as mindformers loads it."""
    yaml.safe_load(path.read_bytes())


def convert(path: Path) -> None:
    """The whole import."""
    recipe_text(import_file(path))


def rate(work: Callable[[Path], None], files: list[Path]) -> float:
    """Files a second of processor time, after one round to warm up."""
    for timed in (files[:3], files):
        start = time.process_time()
        for path in timed:
            try:
                work(path)
            except (UserError, yaml.YAMLError, UnicodeDecodeError):
                continue
    return len(files) / (time.process_time() - start)


def main() -> None:
    """Print both rates and their ratio."""
    files = [Path(name) for name in sys.argv[1:]]
    if not files:
        sys.exit(__doc__)
    alone, whole = rate(parse, files), rate(convert, files)
    print(f"{len(files)} files: import {whole:.0f} a second, PyYAML's safe_load alone {alone:.0f} a second, ratio {whole / alone:.2f}")


if __name__ == "__main__":
    main()
