"""Checkpoints read without mindspore: what is in them, whether they are whole, which is the newest."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.files import ckpt_entry, write_ckpt, write_iteration, write_safetensors
from mindrecipe.checkpoints.contents import BrokenCheckpoint, Entry, read_entries
from mindrecipe.checkpoints.find import find, parameters

SHAPES = {"model.layers.0.w": (3, 5), "model.norm": (7,), "lm_head.weight": (2, 2, 2)}
STATES = {"adam_m.model.norm": (7,), "adam_v.model.norm": (7,), "scale_sense": (), "global_step": (1,), "current_iterator_step": ()}
_names = st.text(min_size=1, max_size=200)
_shapes = st.dictionaries(_names, st.lists(st.integers(0, 9), max_size=4).map(tuple), min_size=1, max_size=8)


@given(_shapes, st.booleans())
def test_names_and_shapes_come_back(here_once: Path, shapes: dict[str, tuple[int, ...]], packed: bool) -> None:
    path = here_once / "x.ckpt"
    path.write_bytes(b"".join(ckpt_entry(name, shape, packed=packed) for name, shape in shapes.items()))
    assert {entry.name: entry.shape for entry in read_entries(path)} == shapes
    assert {entry.name: entry.shape for entry in read_entries(write_safetensors(here_once / "x.safetensors", shapes))} == {
        name: shape for name, shape in shapes.items() if name != "__metadata__"
    }


@pytest.fixture(scope="module")
def here_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@given(st.integers(0, 10_000))
def test_a_file_cut_anywhere_is_broken(here_once: Path, cut: int) -> None:
    """kill -9 in the middle of a write: no length of the file is taken for a whole one, but those between two entries."""
    whole = write_ckpt(here_once / "cut.ckpt", SHAPES, step=3).read_bytes()
    ends = {sum(len(ckpt_entry(name, shape)) for name, shape in list(SHAPES.items())[:count]) for count in range(1, 4)}
    cut %= len(whole)
    (here_once / "cut.ckpt").write_bytes(whole[:cut])
    if cut in ends or cut > max(ends):
        return
    with pytest.raises(BrokenCheckpoint):
        read_entries(here_once / "cut.ckpt")
    safe = write_safetensors(here_once / "cut.safetensors", SHAPES).read_bytes()
    (here_once / "cut.safetensors").write_bytes(safe[: cut % len(safe)])
    with pytest.raises(BrokenCheckpoint):
        read_entries(here_once / "cut.safetensors")


@given(st.binary(max_size=200), st.sampled_from([".ckpt", ".safetensors"]), st.integers(0, 300))
def test_rubbish_is_broken_or_read_but_never_a_crash(here_once: Path, rubbish: bytes, suffix: str, at: int) -> None:
    path = here_once / f"rubbish{suffix}"
    make = write_ckpt if suffix == ".ckpt" else write_safetensors
    whole = make(path, SHAPES).read_bytes()
    for content in (rubbish, whole[:at] + rubbish + whole[at:], whole[: len(whole) // 2] + rubbish):
        path.write_bytes(content)
        try:
            assert all(isinstance(entry, Entry) for entry in read_entries(path))
        except BrokenCheckpoint as fault:
            assert str(fault)


@pytest.mark.parametrize("header", [b"[]", b"3", b'{"a": 1}', b'{"a": {}}', b'{"a": {"shape": 3, "data_offsets": [0, 0]}}', b"{", b"\xff"])
def test_headers_that_are_none(here_once: Path, header: bytes) -> None:
    path = here_once / "h.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(BrokenCheckpoint):
        read_entries(path)


@pytest.mark.parametrize(
    "kind, form, value",
    [("Int32", "<i", -7), ("Int64", "<q", 2**40), ("Float32", "<f", 0.5), ("Float64", "<d", 1e-300), ("Bool", "<?", True)],
)
def test_small_values(here_once: Path, kind: str, form: str, value: float) -> None:
    path = here_once / "v.ckpt"
    path.write_bytes(ckpt_entry("x", (1,), kind, struct.pack(form, value)))
    (entry,) = read_entries(path)
    assert entry.value == (None if kind == "Bool" else value)


def test_slices_of_one_tensor_are_counted_once(here_once: Path) -> None:
    path = here_once / "s.ckpt"
    path.write_bytes(ckpt_entry("w", (4, 4), content=b"\0" * 32) + ckpt_entry("w", (4, 4), content=b"\0" * 32) + ckpt_entry("b", (4,)))
    assert [(entry.name, entry.size) for entry in read_entries(path)] == [("w", 16), ("b", 4)]


def test_parameters_are_told_from_state(tmp_path: Path) -> None:
    write_ckpt(tmp_path / "rank_0" / "x-1_3.ckpt", SHAPES | STATES, step=3)
    (found,) = find(tmp_path).complete
    assert {entry.name for entry in parameters(found)} == set(SHAPES)
    write_iteration(tmp_path / "b", 5, SHAPES)
    (safe,) = find(tmp_path / "b").complete
    assert {entry.name for entry in parameters(safe)} == set(SHAPES)


# --- finding


def test_the_true_step_counts_not_the_name(tmp_path: Path) -> None:
    """After a resume mindformers' names start again: -1_32 may be step 64."""
    folder = tmp_path / "run" / "checkpoint" / "rank_0"
    write_ckpt(folder / "x_rank_0-1_40.ckpt", SHAPES, step=40)
    write_ckpt(folder / "x_rank_0_1-1_24.ckpt", SHAPES, step=64)
    found = find(tmp_path / "run")
    assert [checkpoint.step for checkpoint in found.complete] == [40, 64] and found.broken == ()
    newest = found.complete[-1]
    assert (newest.folder, newest.file_name, newest.format) == (folder.parent, "x_rank_0_1-1_24.ckpt", "ckpt")
    for place in (folder.parent, folder):
        assert find(place) == found


def test_a_half_written_one_is_passed_over(tmp_path: Path) -> None:
    write_ckpt(tmp_path / "rank_0" / "x-1_10.ckpt", SHAPES, step=10)
    whole = write_ckpt(tmp_path / "rank_0" / "x-1_20.ckpt", SHAPES, step=20)
    whole.write_bytes(whole.read_bytes()[:-30])
    (tmp_path / "rank_0" / "x-1_30.ckpt.tmp").write_bytes(b"half")
    (tmp_path / "rank_0" / "meta.json").write_text("{}", encoding="utf-8")
    found = find(tmp_path)
    assert [checkpoint.step for checkpoint in found.complete] == [10]
    ((path, why),) = found.broken
    assert path.name == "x-1_20.ckpt" and why.startswith("x-1_20.ckpt: ")


def test_every_rank_must_be_there_and_whole(tmp_path: Path) -> None:
    for rank in range(12):
        for step in (10, 20):
            write_ckpt(tmp_path / f"rank_{rank}" / f"x_rank_{rank}-1_{step}.ckpt", SHAPES, step=step)
    assert [checkpoint.step for checkpoint in find(tmp_path).complete] == [10, 20]
    assert len(find(tmp_path).complete[-1].files) == 12
    (tmp_path / "rank_11" / "x_rank_11-1_20.ckpt").unlink()
    found = find(tmp_path)
    assert [checkpoint.step for checkpoint in found.complete] == [10]
    assert found.broken[0][1] == "rank file x_rank_11-1_20.ckpt is missing"
    (tmp_path / "rank_3" / "x_rank_3-1_10.ckpt").write_bytes(b"")
    assert find(tmp_path).complete == ()


def test_iterations(tmp_path: Path) -> None:
    root = tmp_path / "run" / "checkpoint"
    for step in (5, 20, 100):
        write_iteration(root, step, SHAPES, world=2)
    (root / "latest_checkpointed_iteration.txt").write_text("100", encoding="utf-8")
    found = find(tmp_path / "run")
    assert [(checkpoint.step, checkpoint.file_name, checkpoint.format) for checkpoint in found.complete][-1] == (100, None, "safetensors")
    assert found.complete[-1].folder == root / "iteration_00000100"
    assert [checkpoint.step for checkpoint in find(root / "iteration_00000020").complete] == [20]
    next((root / "iteration_00000100").glob("x-model-0000001-*")).unlink()
    (root / "iteration_00000020" / "common.json").unlink()
    found = find(root)
    assert [checkpoint.step for checkpoint in found.complete] == [5]
    assert {why for _, why in found.broken} == {"it holds 1 of 2 ranks' model files", "common.json is missing"}
    for path in (root / "iteration_00000005").glob("*-model-*"):
        path.unlink()
    assert find(root).complete == ()


def test_single_files(tmp_path: Path) -> None:
    alone = write_ckpt(tmp_path / "weights.ckpt", SHAPES)
    (found,) = find(alone).complete
    assert (found.step, found.folder, found.file_name, found.files) == (0, tmp_path, "weights.ckpt", (alone,))
    (found,) = find(write_safetensors(tmp_path / "w.safetensors", SHAPES)).complete
    assert found.format == "safetensors" and {entry.name for entry in parameters(found)} == set(SHAPES)
    (tmp_path / "w.safetensors").write_bytes(b"xx")
    assert find(tmp_path / "w.safetensors").broken


def test_places_without_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "rank_0").mkdir()
    (tmp_path / "iteration_x").mkdir()
    for place in (tmp_path, tmp_path / "no", tmp_path / "rank_0"):
        assert find(place) == find(tmp_path / "no") and find(place).complete == ()
