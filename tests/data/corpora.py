"""Small made-up corpora and specs, and readers that do not go through the code under test."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mindrecipe.data.spec import DataSpec

WORDS = ["alpha", "beta", "gamma", "delta", "été", "数据", "x = 1", "def", "return", "😀", "</s>", "<pad>", "{}", "\t"]


def make_spec(cache: Path, **changes: Any) -> DataSpec:
    """A spec of a "text" data set with plain bytes and short rows."""
    base = DataSpec(
        source="text", files=(), heldout_files=(), heldout_fraction=0.1, text_field="text", tokenizer="bytes", tokenizer_vocab_size=512,
        vocab_size=512, seq_length=32, layout="shifted", eos_token_id=2, pad_token_id=0, cache_dir=str(cache),
    )  # fmt: skip
    return replace(base, **changes)


def prose(seed: int, lines: int) -> str:
    """Lines of words, some of them not ASCII, some looking like special tokens."""
    rng = random.Random(seed)
    return "".join(" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) + "\n" for _ in range(lines))


def write_texts(folder: Path, count: int, lines: int = 30) -> list[str]:
    """``count`` different .txt files; their paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"part{number:03d}.txt").write_text(prose(number, lines), encoding="utf-8")
    return sorted(str(path) for path in folder.glob("*.txt"))


def write_jsonl(path: Path, texts: list[Any], field: str = "text") -> str:
    """One object a line."""
    lines = [json.dumps({"id": number, field: text}, ensure_ascii=False) + "\n" for number, text in enumerate(texts)]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


READ_BACK = """
import sys
import numpy as np
import mindspore.dataset as ds
target, *files = sys.argv[1:]
rows = list(ds.MindDataset(files, shuffle=False, num_parallel_workers=1).create_dict_iterator(output_numpy=True, num_epochs=1))
np.savez(target, **{name: np.stack([row[name] for row in rows]) for name in rows[0]})
"""


def read_back(files: tuple[str, ...], scratch: Path) -> dict[str, np.ndarray]:
    """All rows of MindRecord files as mindspore itself reads them, in a process of its own."""
    target = scratch / "rows.npz"
    subprocess.run([sys.executable, "-c", READ_BACK, str(target), *files], check=True, cwd=scratch, capture_output=True, timeout=500)
    with np.load(target) as rows:
        return dict(rows)
