"""What simulating a rank of Llama2-7B, 13B and 70B costs this machine, and what each stage needs.

    python benchmarks/simulate_layouts.py            # the first rank of each layout
    python benchmarks/simulate_layouts.py --ranks first-of-each-stage 7b

Every rank is simulated afresh, one at a time. Wall time is of this machine as it is: the load average before each is printed beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BASE = ["parallel=semi_auto", "amp=O2", "device=ascend_910b", "launch.devices_per_node=8"]
MESH = "parallel.model_parallel={} parallel.pipeline_stage={} parallel.micro_batch_num={}"
LAYOUTS = {
    "7b dp1 mp4 pp2": ["+model=llama2_7b", *MESH.format(4, 2, 4).split(), "parallel.optimizer_parallel=false"],
    "7b dp2 mp2 pp2 recompute": ["+model=llama2_7b", *MESH.format(2, 2, 4).split(), "recompute=full"],
    "13b dp1 mp4 pp2": ["+model=llama2_13b", *MESH.format(4, 2, 4).split(), "parallel.optimizer_parallel=false", "recompute=attention"],
    "13b dp2 mp4 pp2": ["+model=llama2_13b", *MESH.format(4, 2, 8).split(), "launch.nodes=2", "parallel.use_seq_parallel=true"],
    "70b dp2 mp8 pp8": [
        "+model=llama2_70b", *MESH.format(8, 8, 16).split(), "launch.nodes=16", "parallel.use_seq_parallel=true", "recompute=full",
    ],
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="0")
    parser.add_argument("only", nargs="*", help="words in the names of layouts, e.g. 7b")
    arguments = parser.parse_args()
    print("| layout | rank | parameters M | peak GiB | with fragments | compile s | in all s | host GiB | load |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, words in LAYOUTS.items():
        if arguments.only and not any(word in name for word in arguments.only):
            continue
        load = os.getloadavg()[0]
        for rank in simulated([*BASE, *words], arguments.ranks)["ranks"]:
            held = rank["holdings"]
            parameters = sum(_size(each["shape"]) for each in held["held"] if each["kind"] == "weight")
            figures = (held["peak_bytes"] / 2**30, rank["peak_with_fragments"] / 2**30, held["compile_seconds"], rank["host_seconds"])
            cells = " | ".join(f"{figure:.1f}" for figure in figures)
            host = rank["host_bytes"] / 2**30
            print(f"| {name} | {rank['rank']} | {parameters / 1e6:.1f} | {cells} | {host:.1f} | {load:.1f} |", flush=True)


def simulated(words: list[str], ranks: str) -> dict:
    """simulation.json of one simulation, whose run directory is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-c", "from mindrecipe.cli.main import main; main()", "simulate", *words]
        line += ["--ranks", ranks, "--again", "--at-once", "1", f"run.dir={folder}/run"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        report = Path(folder) / "run/simulation.json"
        if not report.exists():
            sys.exit(f"{' '.join(words)}:\n{done.stderr[-2000:]}{done.stdout[-2000:]}")
        return json.loads(report.read_text())


def _size(shape: list[int]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size


if __name__ == "__main__":
    main()
