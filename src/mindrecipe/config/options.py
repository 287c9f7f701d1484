"""The options of each group and the recipes: what can be chosen, and what each file says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mindrecipe.config.search_path import GROUP, conf_folders, recipe_folders


def groups() -> tuple[str, ...]:
    """Config groups: the folders of every conf/ on the search path, and ``recipe``."""
    names = [path.name for folder in conf_folders() for path in sorted(folder.iterdir()) if path.is_dir() and path.name != "hydra"]
    return tuple(dict.fromkeys([GROUP, *names]))


@dataclass(frozen=True, slots=True)
class Option:
    """One file of a group: its name, its path, and its header comment (the first line says what it is for)."""

    group: str
    name: str
    path: Path
    header: str

    @property
    def summary(self) -> str:
        """The first sentence of the header."""
        first = next((line for line in self.header.splitlines() if line.strip()), "")
        return first.strip()


def describe(group: str) -> list[Option]:
    """Options of ``group`` by name; of two files with one name the first on the search path counts."""
    found = _files(group)
    return [Option(group, name, found[name], header_of(found[name])) for name in sorted(found)]


def options(group: str) -> list[str]:
    """Names of the options of ``group``."""
    return sorted(_files(group))


def _files(group: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in _folders(group):
        for path in sorted(folder.rglob("*.yaml")):
            if path.is_file():
                found.setdefault(path.relative_to(folder).with_suffix("").as_posix(), path)
    return found


def header_of(path: Path) -> str:
    """The comment lines a file opens with, without `#` and without Hydra's `@package` line."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines():
        if not line.startswith("#"):
            break
        text = line[1:].removeprefix(" ")
        if not text.startswith("@package"):
            lines.append(text)
    return "\n".join(lines)


def _folders(group: str) -> list[Path]:
    if group == GROUP:
        return recipe_folders()
    return [folder / group for folder in conf_folders() if (folder / group).is_dir()]
