"""What a checkpoint file holds: names, shapes and small values, read by seeking past the tensors.

.ckpt is MindSpore's protobuf (mindspore/train/checkpoint.proto): repeated Value{tag, TensorProto{dims, type, content}}; the
true step stands in the entry ``step_num``, since mindformers' file names start again after a resume. safetensors opens with
an 8-byte length and a JSON header (https://github.com/huggingface/safetensors, format).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_SMALL = 64
_SAFE_NUMBERS = {"I32": "<i", "I64": "<q", "F32": "<f", "F64": "<d"}
_NUMBERS = {"Int32": "<i", "Int64": "<q", "Float32": "<f", "Float64": "<d"}
#: prefixes of what an optimizer (and a step) keeps beside the parameters, in mindformers' and mindspore.nn's names
_OPTIMIZER = (
    "adam_m.",
    "adam_v.",
    "adam_v_max.",
    "moments.",
    "moment1.",
    "moment2.",
    "exp_avg",
    "accum",
    "stat.",
    "fp32_weight.",
    "muon_m.",
    "loss_gate",  # of the step cell with watch.loss_spike=skip
)
#: single entries that are no parameters either
_STATE = {
    "epoch_num",
    "step_num",
    "loss_scale",
    "global_batch_size",
    "scale_sense",
    "global_step",
    "current_iterator_step",
    "last_overflow_iterator_step",
    "learning_rate",
}


class BrokenCheckpoint(Exception):
    """The file ends too early or is no checkpoint: a half-written or damaged one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One named tensor: its shape, and its value where it is a single number."""

    name: str
    shape: tuple[int, ...]
    value: float | None

    @property
    def is_parameter(self) -> bool:
        """A weight of the model, not state of the optimizer or of the training."""
        return self.name not in _STATE and not self.name.startswith(_OPTIMIZER)

    @property
    def size(self) -> int:
        """Numbers in the tensor."""
        return math.prod(self.shape)


def read_entries(path: Path) -> list[Entry]:
    """All entries of a .ckpt or .safetensors file. BrokenCheckpoint where it is not whole."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if path.suffix == ".safetensors":
            return list(_safetensors(file, size))
        return _merge_slices(_ckpt(file, size))


def _ckpt(file: BinaryIO, size: int) -> Iterator[Entry]:
    if size == 0:
        raise BrokenCheckpoint("the file is empty")
    while file.tell() < size:
        length = _field(file, 1)
        end = file.tell() + length
        if end > size:
            raise BrokenCheckpoint(f"it ends at byte {size}, inside an entry that goes on to {end}")
        named = _field(file, 1)
        if file.tell() + named > end:
            raise BrokenCheckpoint("a name in it goes on beyond its entry")
        name = _text(file.read(named))
        inner = file.tell() + _field(file, 2)
        yield _tensor(file, name, min(end, inner + 16))
        file.seek(end)


def _tensor(file: BinaryIO, name: str, end: int) -> Entry:
    dims: list[int] = []
    kind = ""
    value = None
    while file.tell() < end:
        number, wire = divmod(_varint(file), 8)
        if wire == 0:
            dims.append(_varint(file))
            continue
        length = _varint(file)
        if file.tell() + length > end:
            raise BrokenCheckpoint(f"the tensor {name} goes on beyond its entry")
        if number == 1:  # packed dims
            stop = file.tell() + length
            while file.tell() < stop:
                dims.append(_varint(file))
        elif number == 2:
            kind = _text(file.read(length))
        else:
            content = file.read(length) if length <= _SMALL else b""
            form = _NUMBERS.get(kind)
            if form and len(content) == struct.calcsize(form):
                value = struct.unpack(form, content)[0]
            break
    return Entry(name, tuple(dims), value)


def _merge_slices(entries: Iterator[Entry]) -> list[Entry]:
    """A large tensor is written in slices of one name, each with the whole shape: count it once."""
    found: dict[str, Entry] = {}
    for entry in entries:
        found.setdefault(entry.name, entry)
    return list(found.values())


def _field(file: BinaryIO, number: int) -> int:
    """The length of a length-delimited field, which must have ``number``."""
    key = _varint(file)
    if key != number * 8 + 2:
        raise BrokenCheckpoint(f"byte {file.tell()} is not the start of an entry")
    return _varint(file)


def _varint(file: BinaryIO) -> int:
    result = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 63:
            raise BrokenCheckpoint("the file ends inside a number")
        result |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return result


def _safetensors(file: BinaryIO, size: int) -> Iterator[Entry]:
    head = file.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or 8 + length > size:
        raise BrokenCheckpoint("the file ends inside its header")
    try:
        header = json.loads(file.read(length))
    except ValueError as fault:
        raise BrokenCheckpoint(f"its header is not JSON: {fault}") from fault
    try:
        header.pop("__metadata__", None)
        end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        shapes = {name: tuple(map(int, entry["shape"])) for name, entry in header.items()}
        scalars = {name: (_SAFE_NUMBERS[entry["dtype"]], entry["data_offsets"][0]) for name, entry in header.items() if _is_scalar(entry)}
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as fault:
        raise BrokenCheckpoint("its header is none of safetensors") from fault
    if end > size:
        raise BrokenCheckpoint(f"it ends at byte {size}, its tensors at {end}")
    for name, shape in shapes.items():
        value = None
        if name in scalars:
            form, offset = scalars[name]
            file.seek(8 + length + offset)
            value = struct.unpack(form, file.read(struct.calcsize(form)))[0]
        yield Entry(name, shape, value)


def _is_scalar(entry: dict[str, Any]) -> bool:
    return math.prod(entry["shape"]) == 1 and entry["dtype"] in _SAFE_NUMBERS


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        raise BrokenCheckpoint("a name in it is no text") from fault
