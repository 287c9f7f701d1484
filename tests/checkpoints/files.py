"""Checkpoint files written by hand, byte by byte, as mindspore and safetensors write them."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number * 8 + 2) + _varint(len(content)) + content


def ckpt_entry(name: str, shape: tuple[int, ...], kind: str = "Float32", content: bytes | None = None, packed: bool = False) -> bytes:
    """One Value{tag, TensorProto{dims, tensor_type, tensor_content}} of mindspore's checkpoint.proto."""
    body = content if content is not None else b"\0" * (4 * math.prod(shape))
    dims = _field(1, b"".join(map(_varint, shape))) if packed and shape else b"".join(_varint(8) + _varint(size) for size in shape)
    return _field(1, _field(1, name.encode()) + _field(2, dims + _field(2, kind.encode()) + _field(3, body)))


def write_ckpt(path: Path, shapes: dict[str, tuple[int, ...]], step: int | None = None) -> Path:
    entries = [ckpt_entry(name, shape) for name, shape in shapes.items()]
    if step is not None:
        entries.append(ckpt_entry("step_num", (1,), "Int32", struct.pack("<i", step)))
        entries.append(ckpt_entry("loss_scale", (), "Float32", struct.pack("<f", 64.0)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(entries))
    return path


def write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> Path:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * at)
    return path


def write_iteration(root: Path, step: int, shapes: dict[str, tuple[int, ...]], world: int = 1) -> Path:
    folder = root / f"iteration_{step:08d}"
    for rank in range(world):
        write_safetensors(folder / f"x-model-{rank:07d}-{world:07d}.safetensors", shapes)
        write_safetensors(folder / f"x-opt-{rank:07d}-{world:07d}.safetensors", {f"adam_m.{name}": shape for name, shape in shapes.items()})
    (folder / "common.json").write_text("{}", encoding="utf-8")
    return folder
