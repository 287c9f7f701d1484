"""What a checkpoint's files should hold: one manifest a rank and step, written after the files are safely on the disk.

``checkpoint/manifests/00000064.rank_0.json`` names the files of rank 0 with their size and CRC-32. A checkpoint is whole when every
rank's manifest is there and its files are what they were. The folder ``manifests`` marks a checkpoint folder as written so: in
another one (another program's) checkpoints are known by their form only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "manifests"
_NAME = re.compile(r"(\d{8,})\.rank_(\d+)\.json")
_CHUNK = 4 << 20
#: what mindformers saves, below a checkpoint folder
_SAVED = (
    "rank_*/*.ckpt",
    "rank_*/*.safetensors",
    "iteration_*/*.safetensors",
    "iteration_*/common.json",
    "iteration_*/metadata.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One rank's share of the checkpoint of ``step``: ``files`` by their path below the checkpoint folder: (bytes, CRC-32)."""

    step: int
    rank: int
    world: int
    files: dict[str, tuple[int, int]]

    def fault(self, root: Path, *, contents: bool = True) -> str | None:
        """What is wrong with the files below ``root``; None if nothing. ``contents`` False compares sizes only."""
        for name, (size, crc) in self.files.items():
            path = root / name
            if not path.is_file():
                return f"{path.name} is missing"
            if path.stat().st_size != size:
                return f"{path.name}: {path.stat().st_size} bytes, {size} were written"
            if contents and crc32(path) != crc:
                return f"{path.name}: its bytes are not those that were written (CRC-32)"
        return None


def make(root: Path, files: list[Path], *, step: int, rank: int, world: int) -> Manifest:
    """Flush ``files`` and their folders to the disk, and sum them up."""
    sums = {}
    for path in files:
        _flush(path)
        sums[str(path.relative_to(root))] = (path.stat().st_size, crc32(path))
    for folder in {path.parent for path in files}:
        _flush(folder)
    return Manifest(step=step, rank=rank, world=world, files=sums)


def write(root: Path, manifest: Manifest) -> None:
    """Write the manifest: from now on the checkpoint counts."""
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    path = path_of(root, manifest)
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(asdict(manifest), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    _flush(folder)


def path_of(root: Path, manifest: Manifest) -> Path:
    """Where it stands."""
    return root / FOLDER / f"{manifest.step:08d}.rank_{manifest.rank}.json"


def read(root: Path) -> dict[int, dict[int, Manifest]]:
    """The manifests below ``root`` that can be read: by step, by rank."""
    found: dict[int, dict[int, Manifest]] = {}
    for path, manifest in _all(root):
        if manifest is not None:
            found.setdefault(_place(path)[0], {})[_place(path)[1]] = manifest
    return found


def damaged(root: Path) -> list[Path]:
    """The manifests below ``root`` that can't be read: what they named is not known."""
    return [path for path, manifest in _all(root) if manifest is None]


def _all(root: Path) -> Iterator[tuple[Path, Manifest | None]]:
    for path in sorted((root / FOLDER).glob("*.json")):
        if _NAME.fullmatch(path.name) is None:
            continue
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            raw["files"] = {str(name): (int(size), int(crc)) for name, (size, crc) in raw["files"].items()}
            yield path, Manifest(**raw)
        except FileNotFoundError:  # another rank prunes
            continue
        except (ValueError, KeyError, TypeError, AttributeError):
            yield path, None


def _place(path: Path) -> tuple[int, int]:
    named = _NAME.fullmatch(path.name)
    assert named is not None, "the name of a manifest"
    return int(named[1]), int(named[2])


def finished(root: Path, world: int) -> set[int] | None:
    """The steps whose checkpoints all of ``world`` ranks have finished; None for a folder without manifests: there it is not known."""
    if not (root / FOLDER).is_dir():
        return None
    return {step for step, ranks in read(root).items() if set(range(world)) <= set(ranks)}


def newest(root: Path) -> int:
    """The last step that any rank has finished a checkpoint of, by the names of the manifests; 0 where there is none."""
    return max((_place(path)[0] for path in (root / FOLDER).glob("*.json") if _NAME.fullmatch(path.name)), default=0)


def begin(root: Path) -> None:
    """Mark the checkpoint folder: from now on only what a manifest names counts."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)


def prune(root: Path, keep: int, undecided: int | None = None) -> list[int]:
    """Delete all but the newest ``keep`` whole checkpoints; returns the steps that went.

    Only what is older than those goes, so that the last good one stays whatever happens to the next. Ranks may do this at once.
    Rank 0's manifest says that a step won't be rolled back; where it is not to be seen, steps from ``undecided`` on do not count.
    """
    manifests = read(root)
    seen = {rank for ranks in manifests.values() for rank in ranks}  # on disks that are not shared, this host's
    whole = [step for step, ranks in manifests.items() if _all_there(ranks, seen) and (0 in ranks or undecided is None or step < undecided)]
    kept = sorted(whole)[-keep:]
    gone = sorted(step for step in manifests if kept and step < kept[0])
    for step in gone:
        for manifest in manifests[step].values():
            delete(root, manifest)
    return gone


def half_written(root: Path) -> list[Path]:
    """What a save that was not finished has left, or has so far: mindspore's ``*.tmp``, and files that no manifest names.

    A folder without manifests is another program's, and where one of them is damaged its files may be whole: there only the former.
    """
    leftovers = [*root.glob("rank_*/*.tmp"), *root.glob("iteration_*/*.tmp"), *(root / FOLDER).glob("*.new")]
    saved = [path for kind in _SAVED for path in root.glob(kind)]
    if (root / FOLDER).is_dir() and not damaged(root):  # after its files have been looked for: a save may end meanwhile
        finished = {root / name for ranks in read(root).values() for each in ranks.values() for name in each.files}
        leftovers += [path for path in saved if path not in finished]
    return leftovers


def remove_half_written(root: Path) -> list[Path]:
    """Delete what a killed process left in the middle of a save (half_written)."""
    leftovers = half_written(root)
    for path in leftovers:
        path.unlink(missing_ok=True)
    for folder in root.glob("iteration_*"):
        if not any(folder.iterdir()):
            folder.rmdir()
    return leftovers


def crc32(path: Path) -> int:
    """CRC-32 of a file."""
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def _all_there(ranks: dict[int, Manifest], seen: set[int]) -> bool:
    world = next(iter(ranks.values())).world
    return {rank for rank in seen if rank < world} <= set(ranks)


def delete(root: Path, manifest: Manifest) -> None:
    """Remove it and its files; what is gone already is no fault."""
    for name in manifest.files:
        path = root / name
        path.unlink(missing_ok=True)
        if path.parent.name.startswith("iteration_"):
            shutil.rmtree(path.parent, ignore_errors=True)
    path_of(root, manifest).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
