"""model.offset: how mindformers lays layers over the stages and chunks of a pipeline."""

from __future__ import annotations

from typing import Any


def shape_of(offset: Any) -> tuple[int, ...] | None:
    """() for a number, (n,) or (m, n) for lists of numbers; None where the lists are ragged or hold something else."""
    if isinstance(offset, int):
        return ()
    if all(isinstance(item, int) for item in offset):
        return (len(offset),)
    if (
        all(isinstance(row, list) and all(isinstance(item, int) for item in row) for row in offset)
        and len({len(row) for row in offset}) == 1
    ):
        return (len(offset), len(offset[0]))
    return None


def layers_of_stages(num_layers: int, stages: int, interleave: int, offset: Any) -> list[list[int]] | None:
    """Layers of each stage, a row for each interleaved chunk, as mindformers lays them; None where ``offset`` has another shape.

    A number, or one list, counts for every stage, or chunk (numpy broadcasting): its sum is then no longer the rest.
    """
    shape, each = shape_of(offset), num_layers // (stages * interleave)
    if shape is None or (shape and shape[-1] != stages) or (len(shape) == 2 and shape[0] != interleave):
        return None
    rows = offset if len(shape) == 2 else [[offset] * stages if shape == () else offset] * interleave
    return [[each + extra for extra in row] for row in rows]
