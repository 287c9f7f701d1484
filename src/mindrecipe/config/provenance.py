"""Where a value was written: the command line, or a line of a YAML file of the composition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from mindrecipe.config.overrides import where
from mindrecipe.paths import shipped


@dataclass(frozen=True, slots=True)
class Source:
    """A YAML file of the composition and the section its content goes to ("" for the whole)."""

    path: Path
    package: str

    def inner(self, key: str) -> str | None:
        """The name that ``key`` has inside this file; None where the file is about another section."""
        if not self.package:
            return key
        return key[len(self.package) + 1 :] if key.startswith(f"{self.package}.") else None


@dataclass(frozen=True, slots=True)
class Provenance:
    """The files of a composition in the order they are merged, and the overrides that come after them."""

    sources: tuple[Source, ...]
    overrides: tuple[str, ...]

    def history(self, key: str) -> list[str]:
        """Every place that wrote ``key``, first to last: the last one won."""
        places = []
        for source in self.sources:
            line = line_of(source, key)
            if line is not None:
                places.append(f"{shown(source.path)}:{line}")
        places.extend(where(text) for text in self.overrides if sets(text, key))
        return places

    def locate(self, key: str) -> str | None:
        """The place that wrote the value of ``key`` that stands; None: it is the schema's default."""
        places = self.history(key)
        return places[-1] if places else None

    def is_set(self, key: str) -> bool:
        """Whether a person or a recipe wrote ``key``: an option that its group has by default says nothing of it."""
        section = key.partition(".")[0]
        chosen = any(text.lstrip("+").startswith(f"{section}=") for text in self.overrides)
        files = (source for source in self.sources if source.package != section or chosen)
        return any(sets(text, key) for text in self.overrides) or any(line_of(source, key) is not None for source in files)

    def written(self, key: str) -> str | None:
        """The letters of the value of ``key`` (or of the item of a list) that stands, where a YAML file wrote it as a plain scalar."""
        if any(sets(text, key) for text in self.overrides):
            return None
        for source in reversed(self.sources):
            if line_of(source, key) is not None:
                inner = source.inner(key)
                entry = entries(source.path).get(inner) if inner else None
                return entry.text if entry else None
        return None

    def is_of_a_model(self, key: str) -> bool:
        """Whether the value of ``key`` that stands is one of a model that comes with this package."""
        last = next((source for source in reversed(self.sources) if line_of(source, key) is not None), None)
        return last is not None and shipped("conf") / "model" in last.path.parents and not any(sets(text, key) for text in self.overrides)


def line_of(source: Source, key: str) -> int | None:
    """The line of a file that wrote ``key``; None: it did not."""
    if source.package.startswith(f"{key}."):
        return 1  # by its `# @package` line
    inner = source.inner(key)
    if inner is None:
        return None
    written = entries(source.path)
    if inner in written:
        return written[inner].line
    # `model: null` writes every key under model: the nearest mapping above ``key`` that is none in this file
    above = [inner.rsplit(".", count)[0] for count in range(1, inner.count(".") + 1)]
    nearest = next((name for name in above if name in written), None)
    return written[nearest].line if nearest and not written[nearest].is_mapping else None


def sets(text: str, key: str) -> bool:
    """Whether an override wrote ``key``."""
    name = text.lstrip("+~").partition("=")[0].split("@")[0]
    return name == key or (key.startswith(name + ".") and "." in name)


def lines(path: Path) -> dict[str, int]:
    """Dotted key -> line (from 1) of every mapping entry in a YAML file."""
    return {key: entry.line for key, entry in entries(path).items() if not entry.is_item}


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a YAML file, or one item of a list (``is_item``): its line, the letters of a plain scalar, and its source."""

    line: int
    text: str | None
    source: str
    is_mapping: bool
    is_item: bool


def entries(path: Path) -> dict[str, Entry]:
    """Dotted key -> entry of a YAML file; items of lists are numbered: "model.offset.0"."""
    return _entries(path, path.stat().st_mtime_ns)


@cache
def _entries(path: Path, _: int) -> dict[str, Entry]:
    found: dict[str, Entry] = {}

    def enter(key: str, node: yaml.Node, line: int, is_item: bool) -> None:
        plain = isinstance(node, yaml.ScalarNode) and node.style is None and "${" not in node.value
        # an empty mapping writes nothing: what is under its key is another file's
        source = " ".join(content[node.start_mark.index : node.end_mark.index].split())
        found[key] = Entry(line, node.value if plain else None, source, isinstance(node, yaml.MappingNode) and bool(node.value), is_item)
        walk(node, f"{key}.", is_item)

    def walk(node: yaml.Node, prefix: str, inside_item: bool = False) -> None:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                enter(f"{prefix}{key_node.value}", value_node, key_node.start_mark.line + 1, inside_item)
        elif isinstance(node, yaml.SequenceNode):
            for place, item in enumerate(node.value):
                enter(f"{prefix}{place}", item, item.start_mark.line + 1, True)

    content = path.read_text(encoding="utf-8")
    root = yaml.compose(content, Loader=yaml.SafeLoader)  # Hydra has read it: it is valid
    if isinstance(root, yaml.ScalarNode):
        found[root.value] = Entry(1, None, "", False, False)  # Hydra takes a lone word for a key
    elif root is not None:
        walk(root, "")
    return found


def shown(path: Path) -> str:
    """``path`` as a person would type it here: relative where it is below the working directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
