"""Read a mindformers YAML as mindformers reads it, and refuse in one message what is no configuration.

Same result as MindFormerConfig._file2dict (mindformers/tools/register/config.py:191): PyYAML's safe loader, aliases shared,
`base_config` merged below, at most ten mappings deep. libyaml parses (ten times faster), the lines of keys are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.bridge.nodes import Lines, inspect_nodes
from mindrecipe.bridge.notes import Note
from mindrecipe.errors import UserError
from mindrecipe.lower.residue import copied

#: a configuration has some kB; this much is parsed in well under a second
MAX_BYTES = 2**20
BASE = "base_config"
_MAX_BASES = 20

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Original:
    """A native configuration as mindformers sees it before its template: ``tree``, and where keys are (``lines``, of the file itself)."""

    path: Path
    tree: dict[str, Any]
    lines: Lines
    notes: tuple[Note, ...] = ()
    bases: tuple[Path, ...] = field(default=())


def read(path: Path) -> Original:
    """Read ``path``. UserError for everything that mindformers could not read either."""
    notes: list[Note] = []
    bases: list[Path] = []
    tree, lines = _load(path, notes, bases, (path.resolve(),))
    return Original(path, tree, lines, tuple(notes), tuple(bases))


def _load(path: Path, notes: list[Note], bases: list[Path], above: tuple[Path, ...]) -> tuple[dict[str, Any], Lines]:
    text = _text(path, notes)
    tree, lines = _parse(path, text, notes)
    if BASE not in tree:
        return tree, lines
    names = tree.pop(BASE)
    base: dict[str, Any] = {}
    for name in names if isinstance(names, list) else [names]:
        if not isinstance(name, str):
            raise UserError(f"base_config names {name!r}: a file name is wanted", where=_at(path, lines.get((BASE,))))
        target = path.parent / name
        if not target.is_file():
            raise UserError(
                f"base_config names {name}, which is not there: {target}",
                where=_at(path, lines.get((BASE,))),
                mend="import it in the folder it comes from, with the files it is based on",
            )
        if target.resolve() in above or len(bases) >= _MAX_BASES:
            raise UserError(f"base_config goes round in a circle at {name}", where=_at(path, lines.get((BASE,))))
        bases.append(target)
        base.update(_load(target, notes, bases, (*above, target.resolve()))[0])
    return _laid_over(tree, base, path), lines


def _laid_over(over: dict[str, Any], base: dict[str, Any], path: Path) -> dict[str, Any]:
    """mindformers' own merge (MindFormerConfig._merge_a_into_b), without writing into shared objects."""
    result = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and key in result:
            below = result[key]
            if below is not None and not isinstance(below, dict):
                raise UserError(
                    f"{key} is a mapping here and {type(below).__name__} in a base_config: mindformers can't merge them", where=str(path)
                )
            result[key] = copied(value) if below is None else _laid_over(value, below, path)
        else:
            result[key] = value
    return result


def _text(path: Path, notes: list[Note]) -> str:
    try:
        if not path.is_file():
            raise UserError(f"{path} is {'a folder' if path.is_dir() else 'not a file' if path.exists() else 'not there'}")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UserError(
                f"{path} has {size / 2**20:,.0f} MiB: no configuration is that large (at most {MAX_BYTES // 2**20} MiB are read)"
            )
        data = path.read_bytes()
    except OSError as fault:
        raise UserError(f"can't read {path}: {fault.strerror or fault}") from fault
    if b"\0" in data:
        raise UserError(f"{path} is a binary file (or UTF-16), not YAML", mend=f"if it is UTF-16 text: iconv -f UTF-16 -t UTF-8 {path}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise UserError(
            f"byte {data[fault.start]:#04x} is not UTF-8: mindformers reads nothing else",
            where=_at(path, line),
            mend=f"iconv -f GB18030 -t UTF-8 {path} > utf8.yaml",
        ) from None
    if "\r\n" in text:
        notes.append(Note(kind="mended", key="", text="Windows line ends (CRLF) read as ordinary ones"))
        text = text.replace("\r\n", "\n")
    return text.removeprefix("\ufeff")


def _parse(path: Path, text: str, notes: list[Note]) -> tuple[dict[str, Any], Lines]:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines = inspect_nodes(node, path, notes)
        tree = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        raise UserError(f"not valid YAML: {fault.problem or fault.context}", where=_at(path, mark.line + 1 if mark else None)) from None
    except yaml.YAMLError as fault:
        raise UserError(f"not valid YAML: {str(fault).splitlines()[0]}", where=str(path)) from None
    except (ValueError, TypeError, OverflowError) as fault:
        # PyYAML's constructors for numbers and dates, e.g. 2024-13-45 or 0b2
        raise UserError(f"not valid YAML: {fault}", where=str(path)) from None
    except RecursionError:
        raise UserError("nested too deeply to be a configuration", where=str(path)) from None
    finally:
        loader.dispose()
    if not isinstance(tree, dict):
        found = "nothing" if tree is None else f"a {type(tree).__name__}"
        raise UserError(f"a configuration is a mapping of sections; this file holds {found}", where=str(path))
    odd = next((key for key in tree if not isinstance(key, str)), None)
    if odd is not None:
        raise UserError(f"the top-level key {odd!r} is not text: mindformers can't read it", where=str(path))
    return tree, lines


def _at(path: Path, line: int | None) -> str:
    return f"{path}:{line}" if line else str(path)
