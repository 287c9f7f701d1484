"""Whole-process time of the commands that look at a run, over a bare Hydra `compose` script on the same conf/, in turns.

    python benchmarks/cli_speed.py [--rounds 7]

Target: at most 3 times. Prints a table of medians and of the ratios pair by pair.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
COMPOSE = """
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
ConfigStore.instance().store(name="mindrecipe_schema", node={{}})
with initialize_config_dir({conf!r}, version_base="1.3"):
    cfg = compose("bare", overrides=["model=llama2_tiny"])
print(OmegaConf.to_yaml(cfg))
"""
COMMANDS = {
    "train --cfg job": ["train", "+model=llama2_tiny", "--cfg", "job"],
    "mindrecipe check": ["mindrecipe", "check", "+model=llama2_tiny"],
    "mindrecipe ls": ["mindrecipe", "ls"],
}


def bare_conf(folder: Path) -> Path:
    """The shipped groups under a primary config without the recipe group (a source of ours)."""
    shipped = Path(__file__).resolve().parents[1] / "conf"
    for group in shipped.iterdir():
        if group.is_dir():
            (folder / group.name).symlink_to(group)
    text = (shipped / "train.yaml").read_text(encoding="utf-8").replace("  - recipe: null\n", "").split("\nhydra:")[0]
    (folder / "bare.yaml").write_text(text + "\n", encoding="utf-8")
    return folder


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        bare = [sys.executable, "-c", COMPOSE.format(conf=str(bare_conf(Path(folder))))]
        print(f"| command | median s | bare compose, median s | ratio, median (min to max) of {rounds} pairs |\n| --- | --- | --- | --- |")
        for name, words in COMMANDS.items():
            command = [str(BIN / words[0]), *words[1:]]
            seconds(bare), seconds(command)  # warm the file cache
            pairs = [(seconds(command), seconds(bare)) for _ in range(rounds)]
            ratios = [ours / theirs for ours, theirs in pairs]
            ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(f"| `{name}` | {ours:.2f} | {theirs:.2f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")


if __name__ == "__main__":
    main()
