"""Checkpoints by their manifests: whole, unfinished, damaged; what is kept, and what is cleaned away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints.files import write_ckpt, write_iteration
from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.find import find, trusted

SHAPES = {"w": (4, 4)}


def save(root: Path, step: int, *, ranks: int = 2, finished: int | None = None) -> list[Path]:
    """A checkpoint of ``step`` by ``ranks`` ranks, of which ``finished`` have written their manifest."""
    manifest.begin(root)
    files = [write_ckpt(root / f"rank_{rank}" / f"x_rank_{rank}-1_{step}.ckpt", SHAPES, step=step) for rank in range(ranks)]
    for rank in range(ranks if finished is None else finished):
        manifest.write(root, manifest.make(root, [files[rank]], step=step, rank=rank, world=ranks))
    return files


def steps(root: Path) -> list[int]:
    return [each.step for each in find(root).complete]


def test_only_what_every_rank_has_finished_counts(tmp_path: Path) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20, finished=1)
    found = find(tmp_path)
    assert steps(tmp_path) == [10]
    assert found.broken[0][1] == "x_rank_1-1_20.ckpt was not finished: no manifest names it"


def test_the_first_of_all_counts_only_when_it_is_finished(tmp_path: Path) -> None:
    save(tmp_path, 10, ranks=1, finished=0)
    assert steps(tmp_path) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_one_changed_byte_is_found_and_the_one_before_is_taken(tmp_path: Path, rank: int) -> None:
    save(tmp_path, 10)
    path = save(tmp_path, 20)[rank]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert steps(tmp_path) == [10, 20], "its form is whole"
    found = trusted(find(tmp_path))
    assert [each.step for each in found.complete] == [10]
    assert "not those that were written" in found.broken[0][1]


def test_a_shorter_file_is_found_without_reading_it(tmp_path: Path) -> None:
    path = save(tmp_path, 10, ranks=1)[0]
    write_ckpt(path, {"w": (4, 3)}, step=10)
    assert "bytes" in find(tmp_path).broken[0][1]


def test_another_programs_checkpoints_are_known_by_their_form(tmp_path: Path) -> None:
    write_ckpt(tmp_path / "rank_0" / "x_rank_0-1_5.ckpt", SHAPES, step=5)
    assert [each.step for each in trusted(find(tmp_path)).complete] == [5]


def test_keep_keeps_so_many_whole_ones(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step)
    assert manifest.prune(tmp_path, 2) == [10]
    assert steps(tmp_path) == [20, 30]
    assert not list(tmp_path.glob("rank_*/*_10.ckpt"))


def test_the_last_good_one_is_never_deleted(tmp_path: Path) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20, finished=1)
    assert manifest.prune(tmp_path, 1) == []
    assert steps(tmp_path) == [10]
    save(tmp_path, 30)
    assert manifest.prune(tmp_path, 1) == [10, 20], "what never got finished goes with those before it"
    assert steps(tmp_path) == [30]


def test_a_rank_that_does_not_see_the_first_counts_no_step_that_may_be_rolled_back(tmp_path: Path) -> None:
    """On a disk of another host: whether step 20 stays is known there only once later steps have come."""
    manifest.begin(tmp_path)
    for step in (10, 20):
        file = write_ckpt(tmp_path / "rank_1" / f"x_rank_1-1_{step}.ckpt", SHAPES, step=step)
        manifest.write(tmp_path, manifest.make(tmp_path, [file], step=step, rank=1, world=2))
    assert manifest.prune(tmp_path, 1, 20) == []
    assert manifest.prune(tmp_path, 1, 21) == [10]


def test_ranks_of_an_earlier_larger_job_are_not_waited_for(tmp_path: Path) -> None:
    save(tmp_path, 10, ranks=2)
    save(tmp_path, 20, ranks=1)
    assert manifest.prune(tmp_path, 1) == [10]


def test_iterations_are_folders(tmp_path: Path) -> None:
    manifest.begin(tmp_path)
    for step in (10, 20):
        folder = write_iteration(tmp_path, step, SHAPES)
        manifest.write(tmp_path, manifest.make(tmp_path, [path for path in folder.iterdir()], step=step, rank=0, world=1))
    assert steps(tmp_path) == [10, 20]
    assert manifest.prune(tmp_path, 1) == [10]
    assert not (tmp_path / "iteration_00000010").exists()


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:-3])


def flip(path: Path) -> None:
    path.write_text(path.read_text().replace("2", "3"))


@pytest.mark.parametrize("name", ["common.json", "metadata.json"])
@pytest.mark.parametrize(("damage", "manifests"), [(cut, True), (cut, False), (flip, True), (Path.unlink, True)])
def test_what_describes_an_iteration_is_looked_at_too(tmp_path: Path, name: str, damage: Callable[[Path], None], manifests: bool) -> None:
    """mindformers reads both: a damaged one would be a traceback in every rank, after a checkpoint that was called good."""
    for step in (10, 20):
        folder = write_iteration(tmp_path, step, SHAPES, world=2)
        for each in ("common.json", "metadata.json"):
            (folder / each).write_text('{"storage_data": {"w": [12]}}')
        if manifests:
            manifest.begin(tmp_path)
            manifest.write(tmp_path, manifest.make(tmp_path, sorted(folder.iterdir()), step=step, rank=0, world=1))
    damage(folder / name)
    found = trusted(find(tmp_path))
    assert [each.step for each in found.complete] == [10] and name in found.broken[0][1]


def test_a_half_written_iteration_goes_with_its_folder(tmp_path: Path) -> None:
    manifest.begin(tmp_path)
    folder = write_iteration(tmp_path, 10, SHAPES)
    (folder / "metadata.json").write_text("{}")
    manifest.remove_half_written(tmp_path)
    assert not folder.exists() and not find(tmp_path).broken


def test_half_written_files_are_cleaned_away(tmp_path: Path) -> None:
    save(tmp_path, 10)
    unfinished = save(tmp_path, 20, finished=0)
    (tmp_path / "rank_0" / "x.tmp").write_text("half")
    assert len(manifest.remove_half_written(tmp_path)) == 3
    assert not any(path.exists() for path in unfinished) and steps(tmp_path) == [10]
