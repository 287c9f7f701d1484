"""Whether what `check` accepts also compiles: configurations near the borders of the rules, each through MindSpore's dry run.

    python benchmarks/rules_compile.py [--number 20] [--seed 1] [--timeout 300]

Draws as benchmarks/rules_soundness.py does (tiny Llama and Qwen3 on Ascend), takes the first ``number`` that `check` accepts and hands
each to `mindrecipe simulate`, one rank of each stage. Exit code 1 where one is refused that was accepted.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/rules")]

from borders import draw  # noqa: E402 - it lies beside the tests

from mends import quick  # noqa: E402
from mindrecipe.errors import UserError  # noqa: E402

COMMAND = [sys.executable, "-c", "from mindrecipe.cli.main import main; main()", "simulate"]


def accepted(rng: random.Random) -> Iterator[tuple[str, ...]]:
    """Drawn configurations that no rule calls an error, each once."""
    seen = set()
    while True:
        overrides = draw(rng)
        try:
            sound = all(finding.severity != "error" for finding in quick(*overrides).check())
        except UserError:
            continue
        if sound and overrides not in seen:
            seen.add(overrides)
            yield overrides


def main() -> int:
    """Draw, compile, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0)
    given = parser.parse_args()
    began, refused = time.monotonic(), 0
    for _, overrides in zip(range(given.number), accepted(random.Random(given.seed)), strict=False):
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(
                    [*COMMAND, *overrides], cwd=folder, timeout=given.timeout, capture_output=True, text=True, check=False
                )
            except subprocess.TimeoutExpired:
                code, said = None, f"no end in {given.timeout:.0f} s"
            else:
                code, said = done.returncode, done.stderr.strip() or done.stdout.strip()
        print("ok  " if code == 0 else "FAIL", " ".join(overrides), flush=True)
        if code != 0:
            refused += 1
            print("    ", "\n     ".join(said.splitlines()[-12:]), flush=True)
    print(f"{given.number} accepted, {refused} did not compile, in {time.monotonic() - began:.0f} s")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
