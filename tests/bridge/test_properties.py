"""Round trips of random recipes: recipe -> native YAML -> recipe is the same run, and importing again changes nothing."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import given, settings

from bridge.random_recipes import configurations
from mindrecipe.bridge.compare import differences
from mindrecipe.bridge.contrast import contrast
from mindrecipe.bridge.importer import Imported, import_file
from mindrecipe.bridge.lowered import derived_of, native_of
from mindrecipe.bridge.meaning import made_of
from mindrecipe.config.schema import RunConfig
from mindrecipe.freeze import to_yaml
from mindrecipe.lower import template


def imported_again(config: RunConfig) -> tuple[dict[str, object], Imported]:
    native = native_of(derived_of(config))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lowered.yaml"
        path.write_text(to_yaml(native), encoding="utf-8")
        return native, import_file(path)


@settings(max_examples=150)
@given(configurations())
def test_a_recipe_lowered_and_imported_is_the_same_run(config: RunConfig) -> None:
    _, imported = imported_again(config)
    found = contrast(made_of("recipe", "recipe", config, None), made_of("native", "mindformers YAML", imported.config, None))
    assert not found.changes, [(change.key, change.left, change.right) for change in found.changes]
    assert not found.effects


@settings(max_examples=60)
@given(configurations())
def test_an_import_lowers_to_the_same_bytes_of_meaning(config: RunConfig) -> None:
    native, imported = imported_again(config)
    again = native_of(imported.derived)
    assert imported.equal
    assert not list(differences(template.apply(again)[0], template.apply(native)[0]))


@settings(max_examples=60)
@given(configurations())
def test_importing_is_idempotent(config: RunConfig) -> None:
    _, once = imported_again(config)
    _, twice = imported_again(once.config)
    assert twice.choices == once.choices
    assert _without_source(twice) == _without_source(once)


def _without_source(imported: Imported) -> dict[str, object]:
    return {key: value for key, value in imported.knobs.items() if key != "run.imported_from"}


def test_what_is_written_is_yaml(tmp_path: Path) -> None:
    """The strategy makes files that PyYAML reads as they were: numbers stay numbers."""
    assert yaml.safe_load(to_yaml({"a": 1e-5, "b": "1e-5"})) == {"a": 1e-5, "b": "1e-5"}
