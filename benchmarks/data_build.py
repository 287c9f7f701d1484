"""Builds the same text with mindrecipe's data builder and with `datasets.map`, in turn, and prints a table of ratios.

    python benchmarks/data_build.py --size 64 --rounds 3

Same documents (.jsonl of Python source and made-up prose), same tokenizer.json, whole processes timed from start to files on disk. Both
tokenize all documents; the builder also packs rows, holds out a share, hashes the source, and writes MindRecord where `datasets` writes
Parquet. `datasets` runs as one process with the tokenizer's own threads and as one process a core; the faster of the two is the yardstick.
Needs: pip install datasets psutil
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import psutil

from mindrecipe.data.bpe import train_bpe
from mindrecipe.data.spec import DataSpec
from mindrecipe.data.stdlib import stdlib_files

BASELINE = """
import os, sys
source, tokenizer_file, target, processes = sys.argv[1:]
os.environ["TOKENIZERS_PARALLELISM"] = "false" if int(processes) > 1 else "true"
from datasets import load_dataset
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(tokenizer_file)

def tokenize(batch):
    return {"input_ids": [e.ids for e in tokenizer.encode_batch_fast(batch["text"], add_special_tokens=False)]}

data = load_dataset("json", data_files=source, split="train", cache_dir=target + "/cache")
data = data.map(tokenize, batched=True, remove_columns=data.column_names, num_proc=int(processes) if int(processes) > 1 else None)
data.to_parquet(target + "/data.parquet")
print(sum(map(len, data.with_format("numpy")[:100]["input_ids"])), file=sys.stderr)
"""


class Measured(NamedTuple):
    """Wall clock, CPU time of all processes, peak of their memory (proportional set size)."""

    seconds: float
    cpu: float
    peak_mib: float


def make_corpus(path: Path, megabytes: int) -> None:
    """Documents of 1 to 8 kB until the file has its size: real source text, shuffled with a fixed seed, each with its own first line."""
    rng = random.Random(0)
    texts = [Path(name).read_text(encoding="utf-8") for name in stdlib_files()]
    size = number = 0
    with open(path, "w", encoding="utf-8") as file:
        while size < megabytes << 20:
            text = rng.choice(texts)
            start = rng.randrange(max(len(text) - 1000, 1))
            line = json.dumps({"text": f"# {number}\n" + text[start : start + rng.randrange(1000, 8000)]}) + "\n"
            file.write(line)
            size, number = size + len(line), number + 1


def cpu_seconds() -> float:
    """CPU time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def proportional_bytes(pid: int) -> int:
    """Memory of a process, shared pages by their share; 0 for one that has ended since it was listed."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def timed(command: list[str], env: dict[str, str]) -> Measured:
    """One run of a process and all it starts."""
    peak, started, cpu = 0, time.perf_counter(), cpu_seconds()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    tree = psutil.Process(process.pid)
    stderr: list[bytes] = []
    reader = threading.Thread(target=lambda: stderr.append(process.stderr.read() if process.stderr else b""))
    reader.start()
    while process.poll() is None:
        peak = max(peak, sum(proportional_bytes(member.pid) for member in (tree, *_children(tree))))
        time.sleep(0.02)
    seconds = time.perf_counter() - started
    reader.join()
    if process.returncode:
        raise RuntimeError(f"{command} failed:\n{b''.join(stderr).decode()[-3000:]}")
    return Measured(seconds, cpu_seconds() - cpu, peak / 2**20)


def _children(tree: psutil.Process) -> list[psutil.Process]:
    try:
        return tree.children(recursive=True)
    except psutil.Error:
        return []


def builder_run(spec: DataSpec, scratch: Path, env: dict[str, str]) -> Measured:
    """One build into an empty cache."""
    shutil.rmtree(spec.cache_dir, ignore_errors=True)
    os.makedirs(spec.cache_dir)
    spec_file = scratch / "spec.json"
    spec_file.write_text(json.dumps(asdict(spec)), encoding="utf-8")
    return timed([sys.executable, "-m", "mindrecipe.data.build", str(spec_file)], env)


def baseline_run(source: Path, tokenizer: Path, scratch: Path, processes: int, env: dict[str, str]) -> Measured:
    """One `datasets.map` with empty caches."""
    target = scratch / "datasets"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return timed([sys.executable, "-c", BASELINE, str(source), str(tokenizer), str(target), str(processes)], env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=64, help="MB of text (default 64)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vocab-size", type=int, default=4096)
    parser.add_argument("--seq-length", type=int, default=2048)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="data-build-") as name:
        scratch = Path(name)
        source, tokenizer = scratch / "corpus.jsonl", scratch / "tokenizer.json"
        make_corpus(source, options.size)
        base = DataSpec(
            source="text", files=(str(source),), heldout_files=(), heldout_fraction=0.05, text_field="text", tokenizer="bpe",
            tokenizer_vocab_size=options.vocab_size, vocab_size=options.vocab_size, seq_length=options.seq_length, layout="shifted",
            eos_token_id=2, pad_token_id=0, cache_dir=str(scratch / "cache"),
        )  # fmt: skip
        texts = (Path(path).read_text(encoding="utf-8") for path in stdlib_files())
        tokenizer.write_text(train_bpe(base, texts), encoding="utf-8")
        specs = {f"mindrecipe, {layout}": replace(base, tokenizer=str(tokenizer), layout=layout) for layout in ("shifted", "labelled")}
        env = {**os.environ, "HF_HOME": str(scratch / "hf"), "HF_DATASETS_OFFLINE": "1", "GLOG_v": "3"}
        results: dict[str, list[Measured]] = {}
        for _ in range(options.rounds):
            for label, spec in specs.items():
                results.setdefault(label, []).append(builder_run(spec, scratch, env))
                facts = json.loads(next(Path(spec.cache_dir).glob("*/facts.json")).read_text(encoding="utf-8"))["facts"]
            for processes in sorted({1, os.cpu_count() or 1}):
                label = f"datasets.map, {processes} process" + ("es" if processes > 1 else "")
                results.setdefault(label, []).append(baseline_run(source, tokenizer, scratch, processes, env))
    tokens = facts["train_tokens"] + facts["heldout_tokens"]
    median = {label: statistics.median(run.seconds for run in runs) for label, runs in results.items()}
    yardstick = min(seconds for label, seconds in median.items() if label.startswith("datasets"))
    print(
        f"{options.size} MB, {tokens / 1e6:.1f} M tokens, vocabulary {options.vocab_size}, seq_length {options.seq_length}, "
        f"median of {options.rounds}; {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    print(f"{'':32} {'seconds':>8} {'min..max':>15} {'CPU s':>7} {'M tokens/s':>11} {'peak MiB':>9} {'ratio':>6}")
    for label, runs in results.items():
        times = [run.seconds for run in runs]
        print(
            f"{label:32} {median[label]:8.2f} {min(times):7.2f}..{max(times):<6.2f} {statistics.median(run.cpu for run in runs):7.2f} "
            f"{tokens / median[label] / 1e6:11.2f} {max(run.peak_mib for run in runs):9.0f} {yardstick / median[label]:6.2f}"
        )
    print("ratio: tokens/s over those of the faster datasets.map; 1.00 or more is the aim")


if __name__ == "__main__":
    main()
