"""The recipe as text: what a person would have written, sparse, in the order of the schema, with a header that says where it is from."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from mindrecipe.bridge.importer import Imported
from mindrecipe.config import keys
from mindrecipe.config.schema import RunConfig

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
#: text that OmegaConf's YAML loader reads as a number although PyYAML does not (it knows 1e-5)
_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.[\d_]+)(e[-+]?\d+)?|[-+]?\.?(inf|nan)", re.IGNORECASE)


class _RecipeDumper(_Dumper):  # type: ignore[misc]
    """Plain YAML for Hydra: short lists on one line, text that could be read as something else quoted."""


def _text(dumper: Any, data: str) -> Any:
    style = "'" if _NUMBER.fullmatch(data) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


def _list(dumper: Any, data: list[Any]) -> Any:
    flat = not any(
        isinstance(item, dict) or (isinstance(item, list) and any(isinstance(inner, list | dict) for inner in item)) for item in data
    )
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)


class _Line(dict[str, Any]):
    """A mapping on one line."""


_RecipeDumper.add_representer(_Line, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True))
_RecipeDumper.add_representer(str, _text)
_RecipeDumper.add_representer(list, _list)


def recipe_text(imported: Imported) -> str:
    """The content of recipes/NAME.yaml."""
    # quoted where YAML would read a word: the option of checkpoint is called off
    defaults = [f"  - override /{group}: {json.dumps(option) if option == 'off' else option}" for group, option in imported.choices.items()]
    return "\n".join([*_header(imported), "defaults:", *defaults, _dump(_tree(imported))])


def _tree(imported: Imported) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    sections = [*RunConfig.__dataclass_fields__]
    order = {key: place for place, key in enumerate(keys.knobs())}
    for key in sorted(imported.knobs, key=lambda key: (sections.index(key.split(".")[0]), order[key])):
        section, _, name = key.partition(".")
        value = _escaped(imported.knobs[key])
        if key in ("omit", "model.keys"):
            value = _on_lines(value)
        if name:
            tree.setdefault(section, {})[name] = value
        else:
            tree[section] = _with_aliases(value)
    return tree


def _on_lines(value: dict[str, Any]) -> dict[str, Any]:
    """Mappings without mappings inside on one line each."""
    if not any(isinstance(inner, dict) for inner in value.values()):
        return _Line(value)
    return {key: _on_lines(inner) if isinstance(inner, dict) and inner else inner for key, inner in value.items()}


def _with_aliases(native: Any) -> Any:
    """The evaluation data set is in mindformers' files twice: written once, as there."""
    task = native.get("eval_dataset_task") if isinstance(native, dict) else None
    if isinstance(task, dict) and task.get("dataset_config") and task["dataset_config"] == native.get("eval_dataset"):
        task["dataset_config"] = native["eval_dataset"]
    return native


def _escaped(value: Any) -> Any:
    """``value`` with `${` made literal: Hydra would take it for a reference. Always a copy without shared parts."""
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(inner) for inner in value]
    return re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + r"\${", value) if isinstance(value, str) else value


def _header(imported: Imported) -> list[str]:
    derived, name = imported.derived, imported.name
    config = derived.config
    size = (
        f"{derived.parameters / 1e9:.1f} billion parameters"
        if derived.parameters >= 1e8
        else f"{derived.parameters / 1e6:.1f} M parameters"
    )
    about = f"{size}, " if derived.parameters else ""
    devices = f"{derived.device_num} x {derived.hardware.title}"
    lines = [
        "# @package _global_",
        f"# {config.run.name}, imported from {imported.original.path.name}: {about}{devices}, "
        f"global batch {derived.global_batch_size} x {config.model.seq_length} tokens.",
        f"#   mindrecipe check +recipe={name}",
        f"#   mindrecipe export +recipe={name}        the native YAML again",
    ]
    if imported.config.native or imported.config.omit:
        lines.append("# `native` is mindformers' own, passed through; `omit` is left to mindformers as long as it has the value given.")
    lines.extend(f"# note: {note.key}: {note.text}" for note in imported.of("effect"))
    return [line.replace("\n", " ") for line in lines]


def _dump(tree: dict[str, Any]) -> str:
    text: str = yaml.dump(tree, Dumper=_RecipeDumper, sort_keys=False, allow_unicode=True, width=140)
    return text
