"""Where the files of one run are: what lowering needs to know of the disk, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """A checkpoint to go on from: the folder mindformers loads, the file name it wants (ckpt only), and the true global step."""

    folder: str
    file_name: str | None
    step: int

    @property
    def path(self) -> Path:
        """The checkpoint as checkpoint.resume names it."""
        return Path(self.folder) if self.file_name is None else Path(self.folder) / "rank_0" / self.file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``output_dir`` is the run directory; ``train_files`` the MindRecords; ``load`` weights to start from."""

    output_dir: str
    train_files: tuple[str, ...]
    resume: Resume | None = None
    load: str | None = None
