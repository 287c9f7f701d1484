"""Find the checkpoints under a path: of a run directory, a checkpoint folder, one iteration, or one file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.contents import BrokenCheckpoint, Entry, read_entries

_ITERATION = re.compile(r"iteration_(\d+)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: ``step`` is the true global step; ``folder`` and ``file_name`` are what mindformers is given.

    ``file_name`` is that of rank 0 for .ckpt, None for safetensors (there ``folder`` is the iteration's own).
    """

    step: int
    folder: Path
    file_name: str | None
    files: tuple[Path, ...]

    @property
    def path(self) -> Path:
        """What a person would look at: rank 0's file, or the iteration's folder."""
        return self.files[0] if self.file_name is not None else self.folder

    @property
    def root(self) -> Path:
        """The folder that holds all ranks' files, and the manifests."""
        return self.folder if self.file_name is not None else self.folder.parent

    @property
    def ranks(self) -> int:
        """How many have saved it, as far as its files tell."""
        named = [re.search(r"-model-\d+-(\d+)\.", path.name) for path in self.files]
        return len(self.files) if self.file_name is not None else max((int(found[1]) for found in named if found), default=1)

    @property
    def format(self) -> str:
        """ckpt or safetensors."""
        return self.files[0].suffix.removeprefix(".")


@dataclass(frozen=True, slots=True)
class Found:
    """Complete checkpoints by step, newest last, and those that are not whole, each with why."""

    complete: tuple[Checkpoint, ...]
    broken: tuple[tuple[Path, str], ...]


def find(path: Path) -> Found:
    """All checkpoints under ``path``; empty where there are none."""
    if path.suffix == ".safetensors" and path.is_file():
        fault = _first_fault((path,))
        return Found((), ((path, fault),)) if fault else Found((Checkpoint(0, path.parent, None, (path,)),), ())
    if path.is_file():
        return _of_rank_files([path], path.parent.parent if re.fullmatch(r"rank_\d+", path.parent.name) else None)
    roots = [path / "checkpoint", path] if (path / "checkpoint").is_dir() else [path]
    for root in roots:
        iterations = _iterations(root)
        ranks = _rank_files(root / "rank_0") or (_rank_files(root) if root.name == "rank_0" else [])
        if iterations:
            return _of_iterations(iterations)
        if ranks:
            return _of_rank_files(ranks, ranks[0].parent.parent)
    return Found((), ())


def trusted(found: Found) -> Found:
    """``found`` up to its newest checkpoint whose bytes are those that were written (CRC-32 of the manifests); reads that one whole.

    Those after it are told as broken. Checkpoints without manifests are taken as they are.
    """
    complete, broken = list(found.complete), list(found.broken)
    while complete:
        newest = complete[-1]
        fault = _manifest_fault(newest.root, newest.files, contents=True)
        if fault is None:
            break
        broken.append((newest.files[0], fault))
        complete.pop()
    return Found(tuple(complete), tuple(broken))


def _manifest_fault(root: Path, files: tuple[Path, ...], *, contents: bool = False) -> str | None:
    """What the manifests say of ``files``: damaged, or not finished. Nothing is known in a folder that has no manifests."""
    if not (root / manifest.FOLDER).is_dir():
        return None
    names = {str(path.relative_to(root)) for path in files}
    named = [each for ranks in manifest.read(root).values() for each in ranks.values() if names & set(each.files)]
    unnamed = names - {name for each in named for name in each.files}
    if unnamed:
        unread = manifest.damaged(root)
        why = f": {unread[-1].name} can't be read" if unread else " was not finished: no manifest names it"
        return f"{Path(min(unnamed)).name}{why}"
    return next(filter(None, (each.fault(root, contents=contents) for each in named)), None)


def _rank_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in (".ckpt", ".safetensors"))


def parameters(checkpoint: Checkpoint) -> list[Entry]:
    """The model's parameters in ``checkpoint``, of rank 0's share."""
    files = [path for path in checkpoint.files if "-opt-" not in path.name]
    seen: dict[str, Entry] = {}
    for path in files if checkpoint.format == "safetensors" else files[:1]:
        seen.update({entry.name: entry for entry in read_entries(path) if entry.is_parameter})
    return list(seen.values())


def _iterations(root: Path) -> list[Path]:
    folders = [root] if _ITERATION.fullmatch(root.name) else sorted(root.glob("iteration_*"))
    return [folder for folder in folders if _ITERATION.fullmatch(folder.name) and folder.is_dir()]


def _of_iterations(folders: list[Path]) -> Found:
    complete, broken = [], []
    for folder in folders:
        step = int(folder.name.rpartition("_")[2])
        files = tuple(sorted(folder.glob("*.safetensors")))
        fault = (
            _first_fault(files)
            or ("common.json is missing" if not (folder / "common.json").exists() else None)
            or next(filter(None, (_unreadable(folder / name) for name in ("common.json", "metadata.json"))), None)
            or _missing_worlds(files)
            or _manifest_fault(folder.parent, files)
        )
        if fault:
            broken.append((folder, fault))
        else:
            complete.append(Checkpoint(step, folder, None, files))
    return Found(tuple(sorted(complete, key=lambda found: found.step)), tuple(broken))


def _unreadable(path: Path) -> str | None:
    """mindformers reads metadata.json where there is one: several ranks' sections have it."""
    if not path.exists():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        held = None
    return None if isinstance(held, dict) else f"{path.name} is no JSON object: it is cut off or damaged"


def _missing_worlds(files: tuple[Path, ...]) -> str | None:
    """Files are called <name>-model-<rank>-<world>.safetensors: all ranks must be there."""
    ranks = [re.search(r"-model-(\d+)-(\d+)", path.name) for path in files]
    numbers = [(int(match[1]), int(match[2])) for match in ranks if match]
    if not numbers:
        return "it holds no model file"
    world = numbers[0][1]
    return None if {rank for rank, _ in numbers} == set(range(world)) else f"it holds {len(numbers)} of {world} ranks' model files"


def _of_rank_files(files: list[Path], folder: Path | None) -> Found:
    """``folder`` holds the folders of all ranks; None for a file that stands alone."""
    complete, broken = [], []
    others = [path for path in folder.glob("rank_*") if path.is_dir() and path.name != "rank_0"] if folder is not None else []
    for path in files:
        group = [path] + [other / path.name.replace("rank_0", other.name) for other in others]
        missing = [each for each in group if not each.exists()]
        fault = f"rank file {missing[0].name} is missing" if missing else _first_fault(tuple(group))
        fault = fault or (_manifest_fault(folder, tuple(group)) if folder is not None else None)
        if fault:
            broken.append((path, fault))
            continue
        step = next((int(entry.value) for entry in read_entries(path) if entry.name == "step_num" and entry.value is not None), 0)
        complete.append(Checkpoint(step, folder or path.parent, path.name, tuple(group)))
    newest = sorted(complete, key=lambda found: (found.step, found.files[0].stat().st_mtime))
    return Found(tuple(newest), tuple(broken))


def _first_fault(files: tuple[Path, ...]) -> str | None:
    for path in files:
        try:
            read_entries(path)
        except BrokenCheckpoint as fault:
            return f"{path.name}: {fault}"
        except OSError as fault:
            return f"{path.name}: {fault.strerror}"
    return None
