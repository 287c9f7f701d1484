"""The parsed YAML before it becomes values: lines of keys, keys written twice, and what would explode when it is unfolded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mindrecipe.bridge.notes import Note
from mindrecipe.errors import UserError

Lines = dict[tuple[Any, ...], int]

#: mappings inside mappings that mindformers allows (mindformers/tools/check_rules.py:23)
MAX_DEPTH = 10
#: values of a file with all aliases written out; the largest real one has about a thousand
MAX_VALUES = 200_000
_MAX_LEVELS = 100


def inspect_nodes(root: Any, path: Path, notes: list[Note]) -> Lines:
    """Lines (from 1) of every key; keys written twice go to ``notes``. UserError where aliases or depth go out of hand."""
    lines: Lines = {}
    if root is None:
        return lines
    sizes: dict[int, int] = {}
    _size(root, sizes, set(), path, 0)
    _walk(root, (), 0, lines, notes, path, set())
    return lines


def _size(node: Any, sizes: dict[int, int], open_nodes: set[int], path: Path, level: int) -> int:
    """Number of values below ``node`` with aliases written out, each node visited once."""
    key = id(node)
    if key in sizes:
        return sizes[key]
    if isinstance(node, yaml.ScalarNode):
        return 1
    if key in open_nodes:
        raise UserError("an alias refers to itself", where=f"{path}:{node.start_mark.line + 1}")
    if level > _MAX_LEVELS:
        raise UserError("nested too deeply to be a configuration", where=f"{path}:{node.start_mark.line + 1}")
    open_nodes.add(key)
    children = [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else node.value
    total = 1 + sum(_size(child, sizes, open_nodes, path, level + 1) for child in children)
    open_nodes.discard(key)
    if total > MAX_VALUES:
        raise UserError(f"more than {MAX_VALUES:,} values, aliases written out: no configuration is that large", where=str(path))
    sizes[key] = total
    return total


def _walk(node: Any, prefix: tuple[Any, ...], depth: int, lines: Lines, notes: list[Note], path: Path, seen: set[int]) -> None:
    if depth > MAX_DEPTH:
        raise UserError(
            f"more than {MAX_DEPTH} mappings deep at {'.'.join(map(str, prefix[:3]))}...: mindformers refuses the file",
            where=f"{path}:{node.start_mark.line + 1}",
        )
    if isinstance(node, yaml.SequenceNode):
        for place, child in enumerate(node.value):
            # lists do not count for mindformers' depth, and it does not look inside them
            if isinstance(child, yaml.MappingNode | yaml.SequenceNode):
                _walk(child, (*prefix, place), 0, lines, notes, path, seen)
        return
    if not isinstance(node, yaml.MappingNode):
        return
    first = id(node) not in seen
    seen.add(id(node))
    here: dict[str, int] = {}
    for key_node, value_node in node.value:
        line, name = key_node.start_mark.line + 1, str(key_node.value)
        if first and name != "<<" and name in here:
            dotted = ".".join(map(str, (*prefix, name)))
            text = f"written twice: line {here[name]} is ignored, line {line} counts"
            notes.append(Note(kind="mended", key=dotted, text=text, line=line))
        here[name] = line
        path_here = (*prefix, name)
        lines[path_here] = line
        if isinstance(value_node, yaml.MappingNode | yaml.SequenceNode):
            _walk(value_node, path_here, depth + 1, lines, notes, path, seen)
