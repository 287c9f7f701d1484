"""Files that are no configuration get one message, soon, and take little memory."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from mindrecipe.bridge.importer import import_file
from mindrecipe.errors import UserError

_BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(12)
)
HOSTILE: dict[str, tuple[bytes, str]] = {
    "aliases that explode": (_BOMB.encode(), "aliases written out"),
    "100 MB": (b"x" * (100 * 2**20), "100 MiB"),
    "flow nesting": (b"a: " + b"[" * 100_000 + b"]" * 100_000, "nesting"),
    "block nesting": ("\n".join(" " * i + f"k{i}:" for i in range(500)).encode(), "nested too deeply"),
    "mappings beyond ten": ("\n".join("  " * i + f"k{i}:" for i in range(13)).encode() + b" 1", "more than 10 mappings deep"),
    "an alias to itself": (b"model: &m\n  model_config: *m\n", "refers to itself"),
    "a tag of Python": (b'a: !!python/object/apply:os.system ["true"]\n', "constructor for the tag"),
    "Chinese in GBK": ("# 训练\nseed: 1\n".encode("gbk"), "is not UTF-8"),
    "UTF-16": ("seed: 1\n".encode("utf-16"), "UTF-16"),
    "a binary": (bytes(range(256)) * 9, "binary"),
    "nothing": (b"", "holds nothing"),
    "a list": (b"- a\n", "holds a list"),
    "two documents": (b"a: 1\n---\nb: 2\n", "another document"),
    "a tab": (b"a:\n\tb: 1\n", "cannot start any token"),
    "no month 13": (b"a: 2024-13-45\n", "month must be in"),
    "a list as a key": (b"? [a]\n: 1\n", "unhashable"),
    "a number as a section": (b"1: 2\nmodel: {}\n", "is not text"),
    "itself as its base": (b"base_config: ./hostile.yaml\n", "circle"),
    "no base": (b"base_config: ./gone.yaml\n", "not there"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_one_message(case: str, tmp_path: Path) -> None:
    content, words = HOSTILE[case]
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=words):
        import_file(path)
    assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024


@pytest.mark.parametrize("path", ["/dev/null", "gone.yaml", "."])
def test_what_is_no_file(path: str) -> None:
    with pytest.raises(UserError):
        import_file(Path(path))
