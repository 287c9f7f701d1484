"""The TensorBoard sink: what stands in the event file afterwards, read back record by record."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest

from measure.samples import step
from mindrecipe.worker.board import Board


def events(folder: Path) -> list[Any]:
    """All events: a record is its length (8 bytes), a checksum of that (4), the bytes of an Event, and their checksum."""
    # not at the top: loaded before mindspore, protobuf takes an implementation that mindspore's files are too old for
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.glob("events.*")):
        rest = path.read_bytes()
        while rest:
            (length,) = struct.unpack_from("<Q", rest)
            found.append(Event.FromString(rest[12 : 12 + length]))
            rest = rest[16 + length :]
    return found


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Tag -> step -> value."""
    found: dict[str, dict[int, float]] = {}
    for event in events(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_every_figure_of_a_step(tmp_path: Path) -> None:
    board = Board(tmp_path, tokens_per_sample=100, grad_clip=1.0)
    losses = [6.0, 5.0, 4.0]
    for number, loss in enumerate(losses, 1):
        board.step(
            step(number, loss=loss, grad_norm=0.5 * number, overflow=number == 2, mfu=0.4, hfu=0.5, cpu_time=0.1, update_ratio=1e-3,
                 checkpoint_time=0.01, grad_groups={"layers.0": 0.25})
        )  # fmt: skip
    board.close()
    found = scalars(tmp_path)
    assert set(found) == {
        *(f"correctness/{name}" for name in ("loss", "lr", "grad_norm", "loss_scale", "update_ratio", "loss_mean", "loss_variance",
                                             "overflow_steps", "clipped_steps")),
        *(f"time/{name}" for name in ("step_time", "data_time", "compute_time", "other_time", "checkpoint_time", "cpu_time")),
        *(f"speed/{name}" for name in ("tokens_per_s", "samples_per_s", "tflops_per_device", "mfu", "hfu")),
        "resources/memory_bytes", "grad_groups/layers.0",
    }  # fmt: skip
    assert found["correctness/loss"] == {1: 6.0, 2: 5.0, 3: 4.0} and found["correctness/loss_mean"] == {1: 6.0, 2: 5.5, 3: 5.0}
    assert found["correctness/loss_variance"][3] == pytest.approx(2 / 3) and found["correctness/overflow_steps"] == {1: 0, 2: 1, 3: 1}
    assert found["correctness/clipped_steps"] == {1: 0, 2: 0, 3: 1} and found["speed/samples_per_s"][1] == 100.0


def test_what_is_not_measured_is_not_written_and_what_is_no_number_is(tmp_path: Path) -> None:
    board = Board(tmp_path, tokens_per_sample=1, grad_clip=None)
    board.step(step(1, loss=math.nan, grad_norm=None, mfu=None, memory_bytes=None))
    board.close()
    found = scalars(tmp_path)
    assert math.isnan(found["correctness/loss"][1]) and not {"correctness/grad_norm", "speed/mfu", "resources/memory_bytes"} & set(found)


def test_a_run_that_goes_on_voids_what_it_trains_again(tmp_path: Path) -> None:
    before = [step(number, loss=6.0, overflow=True) for number in (1, 2)]
    board = Board(tmp_path, tokens_per_sample=1, grad_clip=1.0, before=before)
    board.step(step(3, loss=3.0))
    board.close()
    found = scalars(tmp_path)
    assert (
        found["correctness/loss_mean"] == {3: 5.0}
        and found["correctness/overflow_steps"] == {3: 2}
        and found["correctness/clipped_steps"] == {3: 3}
    )
    assert [event.step for event in events(tmp_path) if event.HasField("session_log")] == [3]


def test_an_attempt_that_died_before_its_first_checkpoint_is_void(tmp_path: Path) -> None:
    for _ in range(2):
        board = Board(tmp_path, tokens_per_sample=1, grad_clip=None)
        board.step(step(1, loss=3.0))
        board.close()
    assert [event.step for event in events(tmp_path) if event.HasField("session_log")] == [1]
